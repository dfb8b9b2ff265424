// Links from nccl-tests: files written here, the real ones where they are, and fits that find what
// was put in.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "costmodel/links/link_fit.hpp"
#include "costmodel/links/nccl_tests.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

using testing::HasSubstr;

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

}  // namespace
}  // namespace weir
