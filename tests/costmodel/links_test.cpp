// Links from nccl-tests: files written here, the real ones where they are, and fits that find what
// was put in.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "costmodel/links/link_fit.hpp"
#include "costmodel/links/measured_link.hpp"
#include "costmodel/links/nccl_tests.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir::links_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string complaint(const std::string& text) {
  try {
    static_cast<void>(read_nccl_tests(text, "nccl.log"));
  } catch (const InputError& error) {
    return error.what();
  }
  return "no complaint";
}

const std::string kDevices =
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid 1 on a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid 2 on b device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n";
const std::string kHeader =
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
    "time   algbw   busbw  "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             "
    "(us)  (GB/s)  (GB/s)\n";

TEST(NcclTests, ColumnsAreFoundByTheirNames) {
  const auto tests = read_nccl_tests(
      "# Collective test starting: sendrecv_perf\n" + kDevices + kHeader +
          "host:1:1 [0] NCCL INFO something\n"
          "        1024           256     float     sum      -1    10.00    0.10    "
          "0.10       0    11.00    0.09    0.09     N/A\n"
          "           0             0     float     sum      -1     9.00    0.00    "
          "0.00       0     9.00    0.00    0.00     N/A\n"
          "# Collective test starting: all_reduce_perf\n" +
          kDevices +
          "#       size         count      type   redop     time   algbw   busbw   "
          "error  i_min     time   algbw   busbw   error "
          " i_min           timestamp\n"
          "        4096          1024     float     sum    20.00    0.20    0.20   "
          "1e-07   19.0    21.00    0.20    0.20     N/A "
          "  19.5 2026-01-28 14:50:17\n",
      "nccl.log");
  ASSERT_EQ(tests.size(), 2U);
  EXPECT_EQ(tests[0].collective, "sendrecv");
  EXPECT_EQ(tests[0].ranks, 2);
  EXPECT_EQ(tests[0].nodes, 2);
  EXPECT_EQ(tests[0].device, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(tests[0].samples.size(), 2U);  // both halves; the empty message is no sample
  EXPECT_DOUBLE_EQ(tests[0].samples[1].time.count(), 11e-6);
  EXPECT_EQ(tests[1].collective, "all_reduce");
  EXPECT_DOUBLE_EQ(tests[1].bus_factor, 1.0);  // 2 (n - 1) / n at n = 2
  EXPECT_DOUBLE_EQ(tests[1].samples[1].time.count(), 21e-6);
}

// Old versions name no collective; sendrecv and all_gather of theirs have no redop column, or print
// nothing in it. A row of 8 ranks: an all_reduce's bus bandwidth is 7/4 of the other, others' 7/8.
std::string unnamed(const std::string& columns, const std::string& values, double factor) {
  std::string devices;
  for (int rank = 0; rank < 8; ++rank)
    devices += fmt::format("#  Rank {} Pid 1 on a device {} [0x1b] A100-SXM4-40GB\n", rank, rank);
  return devices +
         fmt::format("#  size count type {} time algbw busbw error time algbw busbw error\n",
                     columns) +
         fmt::format("1000000 250000 float {} 10.00 100.00 {:.2f} 0e+00 10.00 100.00 {:.2f} {}\n",
                     values, 100 * factor, 100 * factor, "N/A");
}
std::string guessed(const std::string& text) {
  return read_nccl_tests(text, "nccl.log").front().collective;
}

TEST(NcclTests, ColumnsOfOperationAndRootMayBeMissingOrBlank) {
  EXPECT_EQ(guessed(unnamed("", "", 1.75)), "all_reduce");
  EXPECT_EQ(guessed(unnamed("redop", "sum", 0.875)), "reduce_scatter");
  EXPECT_EQ(guessed(unnamed("redop", "", 0.875)), "alltoall");  // nothing to check in place
  EXPECT_EQ(guessed(unnamed("redop root", "", 1)), "sendrecv");
  EXPECT_EQ(guessed(unnamed("redop root", "sum", 1.75)), "all_reduce");
  EXPECT_EQ(guessed(unnamed("redop root", "0", 1)), "broadcast");
  EXPECT_EQ(guessed(unnamed("redop root", "sum 3", 1)), "reduce");
}

// Two ranks: all factors but a half are 1. What may be checked in place is no sendrecv.
TEST(NcclTests, BetweenTwoAnAllReduceIsToldByWhatIsChecked) {
  const auto of_two = [](const std::string& last, const std::string& operation = "sum -1") {
    return guessed(kDevices + kHeader + "4000 1000 float " + operation +
                   " 20.00 0.20 0.20 0 21.00 0.20 0.20 " + last + "\n");
  };
  EXPECT_EQ(of_two("0"), "all_reduce");
  EXPECT_EQ(of_two("N/A"), "sendrecv");
  EXPECT_EQ(of_two("0", "none -1"), "unnamed");
}

// mpirun --tag-output, srun --label, mpiexec and kubectl logs put their words before each line.
// all_reduce_perf_mpi is nccl-tests' name for what make NAME_SUFFIX=_mpi builds.
TEST(NcclTests, WhatLaunchersPutBeforeLinesGoes) {
  const std::string log =
      "# Collective test starting: all_reduce_perf_mpi\n" + kDevices + kHeader +
      "        4096          1024     float     sum      -1    20.00    0.20    "
      "0.20       0    21.00    0.20    0.20       0\n";
  for (const std::string label :
       {"[1,0]<stdout>:", "0: ", "[0] ", "[pod/launcher/main] 2026-01-28T14:50:17.000000000Z "}) {
    std::string labelled = label + log;
    for (std::size_t at = 0; (at = labelled.find('\n', at) + 1) != labelled.size();)
      labelled.insert(at, label);
    const auto tests = read_nccl_tests(labelled, "nccl.log");
    ASSERT_EQ(tests.size(), 1U) << label;
    EXPECT_EQ(tests[0].collective, "all_reduce");
    EXPECT_EQ(tests[0].nodes, 2);
    ASSERT_EQ(tests[0].samples.size(), 2U);
    EXPECT_DOUBLE_EQ(tests[0].samples[1].time.count(), 21e-6);
  }
}

// With NCCL_DEBUG=INFO a row ends where NCCL's first line begins, and goes on behind its last.
TEST(NcclTests, RowsThatNcclsOwnLinesCutAreWhole) {
  const auto tests = read_nccl_tests(
      "# Collective test starting: all_reduce_perf\n" + kDevices + kHeader +
          "        4096          1024     float     sum      -1worker-0:26:68 [0] NCCL INFO Trees\n"
          "worker-0:26:68 [0] NCCL INFO Connected all rings\n"
          "    20.00    0.20    0.20       0worker-1:27:72 [0] NCCL INFO comm 0x7f\n"
          "    21.00    0.20    0.20       0\n"
          "        8192          2048     float     sum      -1    10000    0.20    0.20       0   "
          " "
          "31.00    0.20    0.20     N/A\n",
      "nccl.log");
  std::vector<double> microseconds;
  for (const TimedMessage& sample : tests.at(0).samples)
    microseconds.push_back(sample.time.count() * 1e6);
  EXPECT_THAT(microseconds, testing::ElementsAre(
                                testing::DoubleNear(20, 1e-9), testing::DoubleNear(21, 1e-9),
                                testing::DoubleNear(10000, 1e-6), testing::DoubleNear(31, 1e-9)));
}

// NCCL_TESTS_SPLIT=MOD 2: two rings at once, each over one device of each of two nodes.
TEST(NcclTests, OneOfSeveralCommunicatorsStandsForAll) {
  std::string text = "# Collective test starting: all_gather_perf\n";
  for (int rank = 0; rank < 4; ++rank)
    text += fmt::format("#  Rank  {} Group  {} Pid 1 on {} device  {} [0000:1b:00] NVIDIA H100\n",
                        rank, rank % 2, rank < 2 ? "a" : "b", rank % 2);
  const auto tests = read_nccl_tests(
      text + kHeader + "4096 1024 float none -1 20.00 0.20 0.10 0 21.00 0.20 0.10 0\n", "nccl.log");
  EXPECT_EQ(tests[0].ranks, 2);
  EXPECT_EQ(tests[0].nodes, 2);
  EXPECT_DOUBLE_EQ(tests[0].bus_factor, 0.5);
}

// Without MPI every process of an mpirun is a rank 0 of its own, and moves nothing over a link.
TEST(NcclTests, ProcessesThatEachRanAloneAreRefused) {
  const std::string alone = "#  Rank  0 Pid 1 on a device  0 [0x00] Tesla V100-SXM2-16GB\n";
  EXPECT_THAT(complaint(alone + alone + kHeader),
              HasSubstr("nccl.log: line 2: Rank 0: is listed twice: these are several runs, or "
                        "processes that each ran alone"));
}

TEST(NcclTests, Json) {
  const std::string head =
      R"({"version":2,"args":["./build/sendrecv_perf","-J","x"],"env":["SECRET=1"],)"
      R"("nccl_version":22902,
      "config":{"nthreads":1,"ngpus":2,"devices":[{"rank":0,"hostname":"a",)"
      R"("device_info":"NVIDIA H200"}]},"results":[)";
  const auto tests = read_nccl_tests(
      head + R"({"size":1024,"count":256,"type":"float","redop":"sum","root":"    -1",
      "out_of_place":{"time":10.5,"alg_bw":"nan","bus_bw":0.1,"nwrong":0},
      "in_place":{"time":11.5,"alg_bw":0.1,"bus_bw":0.1,"nwrong":null}}],"errors":[]})",
      "nccl.json");
  ASSERT_EQ(tests.size(), 1U);
  EXPECT_EQ(tests[0].collective, "sendrecv");
  EXPECT_EQ(tests[0].ranks, 2);
  EXPECT_EQ(tests[0].nodes, 1);
  EXPECT_DOUBLE_EQ(tests[0].samples[0].time.count(), 10.5e-6);
  EXPECT_EQ(collective_of("./build/all_reduce_perf_mpi"), "all_reduce");
  EXPECT_EQ(complaint(head + "]}"), "nccl.log: results: sendrecv has no results");
  EXPECT_EQ(complaint(head + R"({"size":8,"out_of_place":{"cpu_time":1}}]})"),
            "nccl.log: results[0].out_of_place.cpu_time: the CPU's time says nothing of a link: "
            "run without -C");
}

TEST(NcclTests, RefusesInOneLine) {
  const std::string start = "# Collective test starting: alltoall_perf\n" + kDevices + kHeader;
  EXPECT_EQ(complaint("hello\n"), "nccl.log: holds no results of nccl-tests");
  EXPECT_EQ(complaint(start), "nccl.log: line 6: alltoall has no results");
  EXPECT_EQ(complaint(start + "b: Test NCCL failure alltoall.cu:274 'remote process exited'\n .. b "
                              "pid 2: Test failure\n"),
            "nccl.log: line 7: alltoall failed before its first result: b: Test NCCL failure "
            "alltoall.cu:274 'remote "
            "process exited'");
  EXPECT_EQ(complaint(start + "  1024  256  float  sum  -1  10.00  0.10  0.10  0\n"),
            "nccl.log: line 7: row: expected 13 columns as in the header, found 9");
  EXPECT_THAT(
      complaint(start +
                "  1024  256  float  sum  -1  10.00  0.10  0.10  3  11.00  0.09  0.09  0\n"),
      HasSubstr("nccl.log: line 7: #wrong: the test found wrong values"));
  EXPECT_THAT(
      complaint(start + "  1024  256  float  sum  -1  fast  0.10  0.10  0  11.00  0.09  0.09  0\n"),
      HasSubstr("nccl.log: line 7: time: \"fast\""));
}

// t = 8 us + S / 10 GB/s up to 64 KiB, then 20 us + S / 200 GB/s: with 1 % noise and a sample in
// ten three times too long.
TEST(LinkFit, FindsWhatWasPutIn) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(1, 0.01);
  std::vector<TimedMessage> samples;
  for (int power = 3; power <= 33; ++power) {
    const double size = std::exp2(power);
    const double time = power <= 16 ? 8e-6 + size / 10e9 : 20e-6 + size / 200e9;
    for (int half = 0; half < 2; ++half) {
      const bool outlier = (2 * power + half) % 10 == 0;
      samples.push_back(
          {Bytes(std::int64_t{1} << power), Seconds(time * noise(random) * (outlier ? 3 : 1))});
    }
  }
  const auto fit = fit_link(samples);
  ASSERT_TRUE(fit);
  ASSERT_EQ(fit->ranges.size(), 2U);
  EXPECT_TRUE(fit->latency_known);
  EXPECT_EQ(fit->ranges[0].largest, Bytes(1 << 16));
  EXPECT_NEAR(fit->ranges[0].latency.count(), 8e-6, 0.1e-6);
  EXPECT_NEAR(fit->ranges[0].bandwidth.count(), 10e9, 0.4e9);
  EXPECT_NEAR(fit->ranges[1].latency.count(), 20e-6, 0.4e-6);
  EXPECT_NEAR(fit->ranges[1].bandwidth.count(), 200e9, 2e9);
  const Link link = to_link(*fit, Seconds(1));
  EXPECT_EQ(link.at(Bytes(1 << 16)).latency, fit->ranges[0].latency);
  EXPECT_EQ(link.at(Bytes((1 << 16) + 1)).latency, fit->ranges[1].latency);
}

// One line needs no second range, however exact the samples are; two sizes are enough, one is not.
TEST(LinkFit, OneLineIsOneRange) {
  std::vector<TimedMessage> samples;
  for (int power = 10; power <= 30; ++power) {
    samples.push_back({Bytes(std::int64_t{1} << power), Seconds(5e-6 + std::exp2(power) / 50e9)});
  }
  EXPECT_EQ(fit_link(samples)->ranges.size(), 1U);
  EXPECT_TRUE(fit_link(std::span(samples).first(2)));
  EXPECT_FALSE(fit_link(std::span(samples).first(1)));
  // An all_reduce of 8 ranks moves 7/4 of its size over each link.
  EXPECT_NEAR(fit_link(samples, bus_factor("all_reduce", 8))->ranges[0].bandwidth.count(), 87.5e9,
              1e6);
}

// Only 32 MiB and more at 20 GB/s, 100 us late: what a small message takes is not in there. From
// the known 10 us the rate leads to the first measured size: 33.55 MB / (1777.7 - 10) us = 18.98
// GB/s.
TEST(LinkFit, LargeMessagesTellNoLatency) {
  std::vector<TimedMessage> samples;
  for (int power = 25; power <= 33; ++power) {
    samples.push_back({Bytes(std::int64_t{1} << power), Seconds(100e-6 + std::exp2(power) / 20e9)});
  }
  const auto fit = fit_link(samples);
  EXPECT_FALSE(fit->latency_known);
  const Link link = to_link(*fit, Seconds(10e-6));
  EXPECT_DOUBLE_EQ(link.at(Bytes(1024)).latency.count(), 10e-6);
  EXPECT_NEAR(link.at(Bytes(1024)).bandwidth.count(), 18.98e9, 0.01e9);
  EXPECT_NEAR(link.at(Bytes(1 << 26)).latency.count(), 100e-6, 1e-9);
}

// What tests tell of a link. Each took `latency_us` plus its bus bytes at `bus` GB/s.
FittedTest measured_test(const std::string& collective, int ranks, int nodes, double bus,
                         double latency_us = 0, int first_power = 25) {
  NcclTest test{.collective = collective, .device = "NVIDIA H100", .ranks = ranks, .nodes = nodes};
  test.bus_factor = bus_factor(collective, ranks);
  for (int power = first_power; power <= 34; ++power) {
    const double size = std::exp2(power);
    test.samples.push_back({Bytes(std::int64_t{1} << power),
                            Seconds(latency_us * 1e-6 + test.bus_factor * size / (bus * 1e9))});
  }
  const auto fit = fit_link(test.samples, test.bus_factor);
  return {collective + ".log", test, *fit};
}
Link link_before() { return {Seconds(10e-6), BytesPerSecond(50e9), {}, 0.9}; }
LinkPlace between() {
  return {.between_nodes = true,
          .devices_per_node = 8,
          .within = Seconds(2e-6),
          .before = link_before()};
}

// 80 devices on 10 nodes, as xxrjun/nccl-tests-cluster measured them: a ring at 324 GB/s over 8
// devices a node that share its cards is 40.5 GB/s each, and the 15 GB/s that 80 sending at once
// reach is a message's alone.
TEST(MeasuredLink, CollectivesAreUsedAsCollectives) {
  const std::vector<FittedTest> tests{
      measured_test("sendrecv", 80, 10, 15.2), measured_test("all_reduce", 80, 10, 364),
      measured_test("all_gather", 80, 10, 324), measured_test("all_gather", 10, 10, 48.7)};
  const auto told = measured_link(tests, between());
  ASSERT_TRUE(told);
  EXPECT_NEAR(told->link.bandwidth.count(), 40.5e9, 0.01e9);
  EXPECT_EQ(told->link.efficiency, 1);
  EXPECT_EQ(told->link.latency, Seconds(10e-6));  // only large messages were measured
  EXPECT_NEAR(told->link.at(Bytes(1 << 28)).bandwidth.count(), 15.2e9, 0.01e9);
  EXPECT_NEAR(told->link.at(Bytes(std::int64_t{1} << 36)).bandwidth.count(), 15.2e9, 0.01e9);
  EXPECT_THAT(told->origin,
              AllOf(HasSubstr("324 GB/s of the ring over 8 devices a node that share its cards, "
                              "40.5 GB/s each; it tells no latency, which stays 10 us; messages "
                              "by nccl-tests sendrecv of 80 x"),
                    Not(HasSubstr("of 8 devices a node: how"))));
}

TEST(MeasuredLink, SaysWhatItsTestsDoNotTell) {
  const std::vector<FittedTest> several{measured_test("sendrecv", 80, 10, 15.2)};
  auto told = measured_link(several, between());
  EXPECT_EQ(told->link.bandwidth.count(), 50e9);
  EXPECT_NEAR(told->link.at(Bytes(1 << 28)).bandwidth.count(), 15.2e9, 0.01e9);
  EXPECT_THAT(told->origin, HasSubstr("rings stay as they were: 8 devices a node that send at "
                                      "once tell none"));
  // One device a node: the message's own rate, for both.
  const std::vector<FittedTest> one{measured_test("sendrecv", 10, 10, 24.9)};
  EXPECT_NEAR(measured_link(one, between())->link.bandwidth.count(), 24.9e9, 0.01e9);

  const std::vector<FittedTest> sums{measured_test("all_reduce", 10, 10, 48.8)};
  told = measured_link(sums, between());
  EXPECT_NEAR(told->link.bandwidth.count(), 48.8e9, 0.01e9);
  EXPECT_THAT(told->origin,
              AllOf(HasSubstr("measured with 1 of 8 devices a node"),
                    HasSubstr("all_gather and reduce_scatter are taken to be as fast"),
                    HasSubstr("no sendrecv was measured")));
  EXPECT_FALSE(measured_link(sums, {.before = link_before()}));  // nothing within a node
  EXPECT_FALSE(measured_link(std::vector{measured_test("gather", 10, 10, 9)}, between()));
}

// A link that keeps messages of any size apart: each of the two changes by its own tests alone.
TEST(MeasuredLink, WhatIsKeptApartStaysApart) {
  LinkPlace place = between();
  place.before.regimes = {{Bytes(std::int64_t{1} << 40), Seconds(20e-6), BytesPerSecond(45e9)}};
  auto told = measured_link(std::vector{measured_test("sendrecv", 10, 10, 24.9)}, place);
  EXPECT_EQ(told->link.bandwidth.count(), 50e9);
  EXPECT_NEAR(told->link.at(Bytes(1 << 28)).bandwidth.count(), 24.9e9, 0.01e9);
  told = measured_link(std::vector{measured_test("all_gather", 80, 10, 324)}, place);
  EXPECT_NEAR(told->link.bandwidth.count(), 40.5e9, 0.01e9);
  EXPECT_EQ(told->link.at(Bytes(1 << 28)).bandwidth.count(), 45e9);
  EXPECT_THAT(told->origin, HasSubstr("messages stay as they were: no sendrecv was measured"));
}

// The forecast of the smallest message is what was measured. Within a node 8 devices gather in 7
// steps; between 10 nodes of 8 a ring's hop is the mean of 7 within (2 us) and one across; an
// all_reduce passes the node twice (7 steps each) and 9 steps across twice.
TEST(MeasuredLink, LatenciesAreThoseOfTheForecastsSteps) {
  const auto latency = [](const FittedTest& test, const LinkPlace& place) {
    return measured_link(std::vector{test}, place)->link.latency.count() * 1e6;
  };
  const LinkPlace within{.devices_per_node = 8, .before = link_before()};
  EXPECT_NEAR(latency(measured_test("all_gather", 8, 1, 340, 35, 10), within), 5, 0.01);
  EXPECT_NEAR(latency(measured_test("all_reduce", 8, 1, 340, 36, 10), within), 6, 0.01);
  EXPECT_NEAR(latency(measured_test("all_gather", 80, 10, 324, 237, 10), between()),
              8 * 3.0 - 7 * 2, 0.02);
  EXPECT_NEAR(latency(measured_test("all_reduce", 80, 10, 324, 2 * (14 + 9 * 7.5), 10), between()),
              (14 + 9 * 7.5 - 7 * 2) / 9, 0.02);
  // A ring whose steps within the node alone would take longer tells nothing of the link across.
  EXPECT_NEAR(latency(measured_test("all_gather", 80, 10, 324, 79, 10), between()), 10, 1e-9);
}

// Of 15 others 8 are in the other node: 8 / 15 of 23.6 GB/s pass a device's own share.
TEST(MeasuredLink, AnAllToAllIsNoRing) {
  const std::vector<FittedTest> tests{measured_test("alltoall", 16, 2, 23.6)};
  EXPECT_NEAR(measured_link(tests, between())->link.bandwidth.count(), 23.6e9 * 8 / 15, 1e7);
}

// 482 GB/s of an all_reduce where a gather reaches 362 is the switch's work; alone it tells nothing
// of the link.
TEST(MeasuredLink, TheSwitchIsNotTheLink) {
  LinkPlace place{.devices_per_node = 8, .before = link_before()};
  const std::vector<FittedTest> both{measured_test("all_reduce", 8, 1, 482),
                                     measured_test("all_gather", 8, 1, 362)};
  auto told = measured_link(both, place);
  EXPECT_NEAR(told->link.bandwidth.count(), 362e9, 1e8);
  ASSERT_TRUE(told->link.switch_reduction);
  EXPECT_NEAR(told->link.switch_reduction->bandwidth.count(), 482e9, 1e8);
  place.before.switch_reduction = SwitchReduction{5, Seconds(30e-6), BytesPerSecond(470e9)};
  told = measured_link(std::span(both).first(1), place);
  EXPECT_EQ(told->link.bandwidth.count(), 50e9);
  EXPECT_EQ(told->link.switch_reduction->latency, Seconds(30e-6));
  EXPECT_NEAR(told->link.switch_reduction->bandwidth.count(), 482e9, 1e8);
  EXPECT_THAT(told->origin, HasSubstr("the switch's all_reduce tells none"));
}

// Peak bus bandwidths as the logs' own summary has them (xxrjun_summary.csv, N10_G1).
TEST(NcclSamples, AgreeWithTheirSummary) {
  const std::filesystem::path folder =
      std::filesystem::path(WEIR_SOURCE_DIR) / ".." / "shared" / "samples" / "nccl";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no sample files beside the checkout";
  const auto tests = read_nccl_tests(read_text_file(folder / "xxrjun_N10_G1_multi.log"), "log");
  const std::vector<std::pair<std::string, double>> peaks = {{"all_reduce", 48.89},
                                                             {"all_gather", 48.71},
                                                             {"reduce_scatter", 48.84},
                                                             {"alltoall", 44.82},
                                                             {"sendrecv", 24.90}};
  ASSERT_EQ(tests.size(), peaks.size());
  for (std::size_t i = 0; i < tests.size(); ++i) {
    EXPECT_EQ(tests[i].collective, peaks[i].first);
    EXPECT_EQ(tests[i].nodes, 10);
    double peak = 0;
    for (const TimedMessage& m : tests[i].samples) {
      peak = std::max(
          peak, tests[i].bus_factor * static_cast<double>(m.size.count()) / m.time.count() / 1e9);
    }
    EXPECT_NEAR(peak, peaks[i].second, 0.01);
  }
  for (const char* old :
       {"all_reduce", "broadcast", "reduce_scatter"}) {  // these do not name their collective
    std::string file = std::string("superbench_") + old + ".log";
    std::erase(file, '_');
    file.insert(10, "_");
    EXPECT_EQ(read_nccl_tests(read_text_file(folder / file), file).front().collective, old);
  }
  try {
    static_cast<void>(
        read_nccl_tests(read_text_file(folder / "xxrjun_FAILED_N2_G1.log"), "failed.log"));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("failed.log: line 12: alltoall failed before its first result: "));
  }
}

// A table that was pasted without the lines above it names no device, so nothing says how many
// there are: with a header alone, two tables, a collective's name, blank lines, or a summary.
TEST(NcclTests, WithoutTheLinesThatNameDevices) {
  const std::string header =
      "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)\n";
  const std::string row =
      "   268435456      67108864     float     sum      -1   1400.0  191.74  "
      "191.74      0\n";
  const std::vector<std::string> texts{
      header + row, header + row + header + row, "\n\n" + header + "\n" + row,
      "# Collective test starting: all_reduce_perf\n" + header + row,
      header + row + "# Avg bus bandwidth    : 191.74\n"};
  for (const std::string& text : texts) {
    EXPECT_THAT(complaint(text),
                HasSubstr("which name the devices, are missing: give nccl-tests' whole output"))
        << text;
  }
}

}  // namespace
}  // namespace weir::links_test
