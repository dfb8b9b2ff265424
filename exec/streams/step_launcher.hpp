// One host thread launches a step for all ranks of this process and waits only at its end: actions
// in launch order (exec/streams/launch_order), each on its rank's queue, between ranks nothing but
// marks. Where the other ranks are other processes, it launches its own rank's part of that order,
// which is the same in all of them, and what goes between them by their transport
// (exec/streams/stream_transport).
//
//   rank 0   F0 ──mark──┐ F1 ──mark──┐                begin and end of every action are marks, and
//   their times, rank 1     wait ──► F0    wait ──► F1             read after the step, are the
//   trace
//
// Blocks: a message between ranks of one device is handed over with its producer's mark, and
// whoever owns a block next is ordered behind all who owned it before, since each of them handed it
// on by such a mark. Between devices a message is copied by a queue of its edge's own, and both
// blocks carry marks (exec/device/arena).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "exec/device/arena.hpp"
#include "exec/device/backend.hpp"
#include "exec/device/stream.hpp"
#include "exec/rank/interpreter.hpp"
#include "exec/rank/transport.hpp"
#include "exec/streams/stream_gradients.hpp"
#include "exec/streams/stream_transport.hpp"
#include "plan/program/program.hpp"

namespace weir {

// What a rank launches with; all outlive the launcher.
struct LaunchedRank {
  Backend* backend = nullptr;  // with a queue
  Arena* arena = nullptr;
  RankWork* work = nullptr;
};

// What connects this process with those of the other ranks; all outlive the launcher.
struct OtherProcesses {
  LaunchedTransport* transport = nullptr;
  LaunchedGradients* gradients = nullptr;
  const std::vector<std::int64_t>* message_bytes = nullptr;  // by operation
  // Until it is true; throws Transport::Stopped when another process failed.
  std::function<void(const std::function<bool()>& reached)> wait_until;
};

// By the run's clock.
struct LaunchedStep {
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t launching_ns = 0;  // from the start until the host had launched everything
};

class StepLauncher {
 public:
  using Now = std::int64_t (*)();
  // `ranks`: by rank; without a backend where `others` has them. Throws RunFailed when the program
  // can deadlock.
  StepLauncher(const Program& program, const std::vector<Mail>& mail,
               std::vector<LaunchedRank> ranks, Now now, OtherProcesses others = {});
  StepLauncher(const StepLauncher&) = delete;
  StepLauncher& operator=(const StepLauncher&) = delete;
  ~StepLauncher();  // waits for what is launched, or abandons what waits for another process

  // Draws the step's data and sets the devices' clocks: all that is not of the step itself.
  void begin_step(std::uint32_t step);
  // One training step, begun; writes the start and end of every operation of these ranks to the
  // clock.
  [[nodiscard]] LaunchedStep run_step(StepClock& clock);
  // Steps from now on are repetitions of one that is recorded once. Preconditions: a step has run,
  // so that every block is there; all ranks are of this process.
  void repeat();

 private:
  [[nodiscard]] bool here(Rank rank) const;
  [[nodiscard]] LaunchQueue* queue_of(const Lane& lane) const;
  void open_lanes();
  void make_marks();
  void launch_all();
  void launch(OperationId id);
  void compute(OperationId id);
  void send(OperationId id);
  void copy(OperationId id, LaunchQueue& lane, Tensor& message);
  void send_away(OperationId id, LaunchQueue& lane);
  void receive(OperationId id, LaunchQueue& lane);
  void reduce(OperationId id);
  void await_predecessors(LaunchQueue& waiting, OperationId id) const;
  void add_launched_before(OperationId id, std::set<OperationId>& launched) const;
  void finish_step();
  void finish_devices();
  void start_clocks();
  [[nodiscard]] std::int64_t time_of(const Mark& mark) const;
  void adjust_clocks(const LaunchedStep& window);
  void read_times(const LaunchedStep& window, StepClock& clock) const;

  const Program& program_;
  const std::vector<Mail>& mail_;
  std::vector<LaunchedRank> ranks_;
  Now now_;
  OtherProcesses others_;
  LaunchQueue* origin_ = nullptr;   // of the first rank here: a step begins and ends on it
  std::vector<OperationId> order_;  // of these ranks
  std::vector<std::string> names_;  // by operation
  std::vector<std::unique_ptr<LaunchQueue>> copying_;  // queues of edges between devices
  std::vector<LaunchQueue*> lanes_;  // by edge; null where a message is handed over, or goes by
  std::vector<Mark> begin_, end_;    // by operation; of no queue where nothing is launched
  OperationId last_reduction_ = -1;  // of this process's; its end is that of the exchange, too
  Mark fork_, done_;                 // of the step, on the origin
  std::vector<Mark> joins_;          // of every other queue
  bool under_way_ = false;           // a step is launched whose end was not seen
  std::map<OperationId, Tensor>
      messages_;  // by send, or by producer where no send is, until the consumer takes it
  struct DeviceClock {
    Backend* of = nullptr;
    Mark base;
    std::int64_t at_ns = 0;  // of the base, by the run's clock
  };
  std::map<int, DeviceClock> clocks_;  // by device
  std::unique_ptr<StepRecorder> recorder_;
};

}  // namespace weir
