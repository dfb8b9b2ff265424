// Kineto files as files: what cannot be read is refused with one line, real ones load, large ones
// stream.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/plan/samples.hpp"
#include "tests/traces/kineto_fixture.hpp"
#include "traces/kineto/events_json.hpp"

namespace weir::kineto_reading_test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(Kineto, WhatIsBrokenIsRefusedWithOneLine) {
  SyntheticRun run = run_of(program_of("gpipe", {1, 1, 1}));
  const std::string good = run.file_of(Rank{0});
  const auto refused = [&](const std::filesystem::path& path) {
    std::string line = complaint(run.program, {path});
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 0) << line;
    return line;
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return file(text);
  };
  EXPECT_EQ(refused(folder_ / "none.json"), "none.json: cannot be read: no such file");
  EXPECT_EQ(refused(folder_), folder_.string() + ": expected a regular file");
  EXPECT_THAT(refused(file("")), HasSubstr("t.json: no valid JSON"));
  EXPECT_THAT(refused(file("{}", "rank0.json")), HasSubstr("rank0.json: traceEvents: is missing"));
  EXPECT_THAT(refused(file("3", "rank0.json")), HasSubstr("traceEvents: is missing"));
  EXPECT_THAT(refused(file("[]", "rank0.json")), HasSubstr("holds no GPU kernels"));
  EXPECT_THAT(refused(file(good.substr(0, good.size() / 2))),
              HasSubstr("t.json: no valid JSON: parse error"));
  EXPECT_THAT(refused(file(std::string(1000, '['))), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(refused(file("[\"" + std::string(70 << 20, 'x'))),
              HasSubstr("a single value longer than 64 MiB"));
  EXPECT_THAT(refused(with("\"rank\": 0", "\"rank\": -1")),
              HasSubstr("distributedInfo.rank: expected an integer"));
  EXPECT_THAT(refused(with("\"baseTimeNanoseconds\": 1", "\"baseTimeNanoseconds\": 9")),
              HasSubstr("baseTimeNanosec"));
  EXPECT_THAT(refused(with("\"ts\": ", "\"tz\": ")),
              HasSubstr("traceEvents[0].ts: expected a time in microseconds"));
  EXPECT_THAT(refused(with("\"dur\": ", "\"dur\": -")),
              HasSubstr("traceEvents[0].dur: expected a duration"));
  EXPECT_THAT(refused(with("ProfilerStep#3", "ProfilerStep#x")),
              HasSubstr("ProfilerStep#x: expected a number"));
  std::string unlaunched = good;
  for (auto at = unlaunched.find("cudaLaunch"); at != unlaunched.npos;
       at = unlaunched.find("cudaLaunch"))
    unlaunched.replace(at, 10, "cudaUnseen");
  EXPECT_THAT(refused(file(unlaunched)), HasSubstr("no kernel's launch was recorded"));

  const auto packed = folder_ / "packed.json.gz";
  write_gzip(packed, good);
  std::ifstream in(packed, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(refused(file(bytes.substr(0, bytes.size() - 20), "cut.json.gz")),
              HasSubstr("ends in the middle of its gzip data"));
  bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
  bytes[bytes.size() / 2 + 1] = static_cast<char>(~bytes[bytes.size() / 2 + 1]);
  EXPECT_THAT(refused(file(bytes, "bad.json.gz")),
              testing::AnyOf(HasSubstr("damaged"), HasSubstr("no valid JSON")));
}

// Old and new, with and without base, numbers as texts: what Kineto wrote over the years.
TEST_F(Kineto, RealFilesLoadOrAreRefusedWithOneLine) {
  const auto folder = sample_folder("kineto");
  if (!folder) GTEST_SKIP() << "no samples here";
  int loaded = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    try {
      const KinetoEvents events = read_kineto_events(entry.path());
      ++loaded;
      if (entry.path().filename() == "deepseek_train_dualpipe.json.gz") {
        EXPECT_EQ(events.identity.world_size, 64);
        EXPECT_EQ(events.kernels_in_file, 963);
        EXPECT_EQ(events.kernels.size(), 963U);  // each with its launch
      }
      if (entry.path().filename() == "hta_nccl_data.json.gz") {
        EXPECT_EQ(events.base_ns, 1711964646000000000);
        EXPECT_EQ(
            std::count_if(events.kernels.begin(), events.kernels.end(),
                          [](const KinetoKernel& k) { return k.kind == KernelKind::collective; }),
            21);
        EXPECT_EQ(events.marked_by.size(), 3U);
      }
      if (entry.path().filename() == "kineto_gpu_metrics_input.json") {  // categories of 2021
        EXPECT_EQ(events.kernels_in_file, 30);
        EXPECT_EQ(events.device, "Tesla V100-DGXS-32GB");
      }
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), Not(HasSubstr("\n"))) << entry.path();
    }
    // Three steps of data-parallel training are a pipeline of one rank and one micro-batch, and so
    // is a step of one V100 whose file has no rank; no other file is.
    const std::string line = complaint(program_of("gpipe", {1, 1, 1}), {entry.path()});
    const std::string name = entry.path().filename().string();
    const bool one_rank =
        name == "hta_nccl_data.json.gz" || name == "kineto_gpu_metrics_input.json";
    EXPECT_EQ(line == "no complaint", one_rank) << name << ": " << line;
  }
  EXPECT_GE(loaded, 11);
}

std::int64_t peak_memory_kib() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6));
  }
  return 0;
}

// The file is written event by event and read as it streams: memory grows by blocks and kept
// kernels, not by the file. The address sanitizer keeps what was freed for a while.
#ifdef __SANITIZE_ADDRESS__
constexpr std::int64_t most_kib = 8192;
#else
constexpr std::int64_t most_kib = 2048;
#endif
void stream(const std::filesystem::path& file, std::int64_t bytes) {
  SyntheticRun run = run_of(program_of("gpipe", {1, 1, 1}));
  const std::string text = run.file_of(Rank{0}, 1000);
  const auto first = text.find("{\"ph\""), last = text.find("{\"ph\": \"X\", \"cat\": \"kernel\"");
  {
    std::ofstream out(file, std::ios::binary);
    out << text.substr(0, first);
    const std::string padding = text.substr(first, last - first);
    for (std::int64_t written = 0; written < bytes;
         written += static_cast<std::int64_t>(padding.size()))
      out << padding;
    out << text.substr(last);
  }
  const std::int64_t before = peak_memory_kib();
  const std::vector<std::filesystem::path> files{file};
  expect_truth(run, read_kineto(run.program, files));
  EXPECT_LT(peak_memory_kib() - before, most_kib) << "of a file of " << bytes << " bytes";
}

TEST_F(Kineto, StreamsTwentyMegabytesInTwo) { stream(folder_ / "large.json", 20'000'000); }

using LongKineto = Kineto;
TEST_F(LongKineto, StreamsTwoHundredMegabytesInTwo) { stream(folder_ / "large.json", 200'000'000); }

}  // namespace
}  // namespace weir::kineto_reading_test
