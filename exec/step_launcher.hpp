// One host thread launches a step for all ranks of this process and waits only at its end: actions in launch order
// (exec/launch_order), each on its rank's queue, between ranks nothing but marks.
//
//   rank 0   F0 ──mark──┐ F1 ──mark──┐                begin and end of every action are marks, and their times,
//   rank 1     wait ──► F0    wait ──► F1             read after the step, are the trace
//
// Blocks: a message between ranks of one device is handed over with its producer's mark, and whoever owns a block next
// is ordered behind all who owned it before, since each of them handed it on by such a mark. Between devices a message
// is copied by a queue of its edge's own, and both blocks carry marks (exec/arena).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "exec/arena.hpp"
#include "exec/backend.hpp"
#include "exec/interpreter.hpp"
#include "exec/launch_queue.hpp"
#include "exec/transport.hpp"
#include "plan/program.hpp"

namespace weir {

// What a rank launches with; all outlive the launcher.
struct LaunchedRank {
  Backend* backend = nullptr;  // with a queue
  Arena* arena = nullptr;
  RankWork* work = nullptr;
};

// By the run's clock.
struct LaunchedStep {
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t launching_ns = 0;  // from the start until the host had launched everything
};

class StepLauncher {
 public:
  using Now = std::int64_t (*)();
  // `ranks`: all of the program's, by rank. Throws RunFailed when the program can deadlock.
  StepLauncher(const Program& program, const std::vector<Mail>& mail, std::vector<LaunchedRank> ranks, Now now);
  StepLauncher(const StepLauncher&) = delete;
  StepLauncher& operator=(const StepLauncher&) = delete;
  ~StepLauncher();  // waits for what is launched

  // One training step; writes every operation's start and end to the clock.
  [[nodiscard]] LaunchedStep run_step(std::uint32_t step, StepClock& clock);
  // Steps from now on are repetitions of one that is recorded once. Precondition: a step has run, so that every block
  // is there.
  void repeat();

 private:
  void make_marks();
  void launch_all();
  void compute(OperationId id);
  void send(OperationId id);
  void copy(OperationId id, LaunchQueue& lane, Tensor& message);
  void await_predecessors(LaunchQueue& waiting, OperationId id) const;
  void add_launched_before(OperationId id, std::set<OperationId>& launched) const;
  void finish();
  void start_clocks();
  [[nodiscard]] std::int64_t time_of(const Mark& mark) const;
  void adjust_clocks(const LaunchedStep& window);
  void read_times(const LaunchedStep& window, StepClock& clock) const;

  const Program& program_;
  const std::vector<Mail>& mail_;
  std::vector<LaunchedRank> ranks_;
  Now now_;
  std::vector<OperationId> order_;
  std::vector<std::string> names_;                   // by operation
  std::vector<std::unique_ptr<LaunchQueue>> lanes_;  // by edge; null where a message is handed over
  std::vector<Mark> begin_, end_;                    // by operation; of no queue where nothing is launched
  Mark fork_;
  std::vector<Mark> joins_;                 // of every other queue
  std::map<OperationId, Tensor> messages_;  // by send, or by producer where no send is, until the consumer takes it
  struct DeviceClock {
    Backend* of = nullptr;
    Mark base;
    std::int64_t at_ns = 0;  // of the base, by the run's clock
  };
  std::map<int, DeviceClock> clocks_;  // by device
  std::unique_ptr<StepRecorder> recorder_;
};

}  // namespace weir
