// One rank's Kineto events laid onto the program's operations, step by step: which kernels were
// 2F0, and which SendRecv kernel carried 2F0's output. Times stay on the rank's own clock; waiting
// is still part of the SendRecv kernels.
//
// Named: PyTorch's pipelining opens a range "PP:2F0" around each action; its kernels are those
// launched meanwhile, by whichever thread. Without names the SendRecv kernels (S), in the order of
// their launch, cut the others (k: of the main thread, forward, or of autograd's, backward) into
// segments:
//
//   launches   k k k  S  k k k k  S S  k k k  S ...
//   plan        0F0  send   0F1  send,recv 0B0  ...
//
// and each segment must be what the plan has between the same two transfers.
//
// Without GPUs the operators inside a range count, from where its receive was waited for; names are
// needed there: those above, or ScheduleGPipe's "Forward 3" and "Backward 3".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plan/program/program.hpp"
#include "traces/kineto/events_json.hpp"

namespace weir {

struct Extent {
  Nanoseconds start{0}, end{0};
  bool seen = false;
  void add(Nanoseconds from, Nanoseconds to);
  void add(const KinetoKernel& kernel) { add(kernel.start, kernel.end); }
};

struct RankSteps {
  std::string file;
  std::int64_t base_ns = 0;
  bool named = false;
  bool on_host = false;  // operators of the CPU and gloo's messages
  OperationId first;     // of this rank; its operations follow one another
  std::vector<std::int64_t>
      numbers;  // of the profiler's steps; empty: the file has none and is one step
  std::vector<std::vector<Extent>> steps;  // per step, per operation of the rank; all seen
  std::vector<std::string> notes;          // what had to be assumed, one line each
};

// Throws InputError: the trace's order and the plan's disagree (both are shown), an action without
// kernels, operators of a CPU in no named range.
[[nodiscard]] RankSteps place_rank(const Program& program, Rank rank, const KinetoEvents& events);

// What the two ways of placing share.

struct RankProgram {
  const Program* program = nullptr;
  Rank rank;
  OperationId first, last;              // its operations
  std::vector<OperationId> actions;     // of the compute lane, without R and OPTIMIZER
  std::vector<OperationId> optimizers;  // OPTIMIZER of each stage
  std::vector<OperationId> reductions;  // REDUCE_GRAD of each stage that has copies
  std::map<Action, OperationId> operation_of;

  [[nodiscard]] const Action& action(OperationId id) const { return program->op(id).action; }
  [[nodiscard]] Ids<OperationId> operations() const { return {first, last}; }
};

// One profiler step's events.
struct StepEvents {
  std::string file;
  std::string where;  // "rank 1, ProfilerStep#5"
  std::span<const KinetoKernel> kernels;
  std::vector<const KinetoMark*> actions, optimizers, transfers;
  std::vector<const KinetoMark*> ranges;  // of ScheduleGPipe
  bool on_host = false;
  std::int32_t main_thread = 0;
};

struct StepPlaces {
  std::vector<Extent> extents;                      // per operation of the rank
  Nanoseconds last_launch{std::int64_t{-1} << 62};  // of a kernel that belongs to an action
  [[nodiscard]] Extent& at(const RankProgram& rank, OperationId id) {
    return extents[static_cast<std::size_t>(id - rank.first)];
  }
};

void place_by_name(const RankProgram& rank, const StepEvents& step, StepPlaces& places);
void place_by_segments(const RankProgram& rank, const StepEvents& step, StepPlaces& places);

struct Orders {
  std::vector<std::string> trace, plan;
  std::size_t trace_difference = 0,
              plan_difference = 0;  // the first place where they differ, in each
  std::string note;                 // how to read them
};
[[noreturn]] void throw_orders(const StepEvents& step, const Orders& orders);

}  // namespace weir
