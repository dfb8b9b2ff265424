// PyTorch profiler traces (Kineto), one file a rank, joined with the program they ran: the same
// measured Trace that our executor writes, so that compare and calibrate need not know where it
// came from. Start at kineto/events_json.hpp (what is read), then kineto/rank_steps.hpp (what is
// made of it).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "plan/program/program.hpp"
#include "traces/trace.hpp"

namespace weir {

struct KinetoRank {
  std::string file;
  std::int32_t global_rank = 0;  // in the training job; ascending with the pipeline rank
  bool named = false;  // its actions were named (PP:2F0); otherwise segmented by SendRecv kernels
  Nanoseconds clock_offset{0};  // added to its times in the first step, relative to rank 0's
};

// The `device` of a trace whose operators ran on CPUs.
inline constexpr const char* kKinetoHost = "CPU";

struct KinetoTrace {
  Trace trace;
  std::vector<KinetoRank> ranks;  // by pipeline rank
  std::vector<std::int64_t>
      steps;             // ProfilerStep numbers; empty: the files have none and are one step
  bool on_host = false;  // operators of CPUs and gloo's messages, of a run without GPUs
  Nanoseconds alignment_error{
      0};  // median distance of the two ends of a message, clocks aligned; 0 on hosts
  std::vector<std::string> notes;  // what was assumed or left out, one line each
};

// Files (.json or .json.gz, up to 1 GiB each) in any order, read one at a time; the memory is that
// of one file's kernels (32 bytes each) and of the program's operations. The rank is
// distributedInfo.rank or, without it, the "rank3" of the file's name; the one file of K = 1 needs
// neither. The trace's info says the `device` it was recorded on. Throws InputError:
// unreadable file, missing or repeated ranks (named), ranks that recorded different steps, ranks
// with and without GPUs, an order that is not the program's (both are shown).
[[nodiscard]] KinetoTrace read_kineto(const Program& program,
                                      std::span<const std::filesystem::path> files);

}  // namespace weir
