// One host thread launches a step for all ranks of this process and waits only at its end: actions
// in launch order (exec/streams/launch_order), each on its rank's stream, between ranks nothing but
// events. Where the other ranks are other processes, it launches its own rank's part of that order,
// which is the same in all of them, and what goes between them by their transport
// (exec/streams/stream_transport).
//
//   rank 0   F0 ──event──┐ F1 ──event──┐
//   rank 1               wait ──► F0   wait ──► F1
//
// The begin and the end of every action are events; read after the step, their times are the trace.
//
// Blocks: a message between ranks of one device is handed over with its producer's event, and
// whoever owns a block next is ordered behind all who owned it before, since each of them handed it
// on by such an event. Between devices a message is copied by a stream of its edge's own, and both
// blocks carry events (exec/device/arena).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exec/device/arena.hpp"
#include "exec/device/backend.hpp"
#include "exec/device/stream.hpp"
#include "exec/rank/interpreter.hpp"
#include "exec/rank/transport.hpp"
#include "exec/streams/stream_gradients.hpp"
#include "exec/streams/stream_norm.hpp"
#include "exec/streams/stream_transport.hpp"
#include "plan/program/program.hpp"

namespace weir {

// What a rank launches with; all outlive the launcher.
struct LocalRank {
  Backend* backend = nullptr;  // with a stream
  Arena* arena = nullptr;
  ActionHandler* handler = nullptr;
};

// What connects this process with those of the other ranks; all outlive the launcher.
struct OtherProcesses {
  StreamTransport* transport = nullptr;
  StreamGradients* gradients = nullptr;
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
  // can deadlock, MissingComponent where skips go directly.
  // `norm`: where gradients are clipped; outlives the launcher.
  StepLauncher(const Program& program, const std::vector<MessageRoute>& routes,
               std::vector<LocalRank> ranks, Now now, OtherProcesses others = {},
               StreamNorm* norm = nullptr);
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
  // The same where the device may refuse it: then why, and steps are launched as before.
  [[nodiscard]] std::optional<std::string> try_repeat();

 private:
  [[nodiscard]] bool here(Rank rank) const;
  [[nodiscard]] Stream* stream_of(const Lane& lane) const;
  void open_edge_streams();
  void make_events();
  void launch_all();
  void launch(OperationId id);
  void compute(OperationId id);
  void send(OperationId id);
  void copy(OperationId id, Stream& stream, Tensor& message);
  void send_away(OperationId id, Stream& stream);
  void receive(OperationId id, Stream& stream);
  void reduce(OperationId id);
  void launch_reduction(OperationId id, Stage stage, Stream& stream);
  void await_predecessors(Stream& waiting, OperationId id) const;
  void add_launched_before(OperationId id, std::set<OperationId>& launched) const;
  void finish_step();
  void finish_devices();
  void start_clocks();
  [[nodiscard]] std::int64_t time_of(const Event& event) const;
  void adjust_clocks(const LaunchedStep& window);
  void read_times(const LaunchedStep& window, StepClock& clock) const;

  const Program& program_;
  const std::vector<MessageRoute>& routes_;
  std::vector<LocalRank> ranks_;
  Now now_;
  OtherProcesses others_;
  StreamNorm* norm_;
  Stream* origin_ = nullptr;        // of the first rank here: a step begins and ends on it
  std::vector<OperationId> order_;  // of these ranks
  PerOperation<std::string> names_;
  std::vector<std::unique_ptr<Stream>> copying_;  // streams of edges between devices
  Indexed<EdgeId, Stream*> edge_streams_;         // null where a message is handed over, or goes by
  PerOperation<Event> begin_, end_;               // of no stream where nothing is launched
  OperationId last_reduction_ = kNoOperation;     // of this process's; its end is that of the
                                                  // exchange, too
  Event fork_, done_;                             // of the step, on the origin
  std::vector<Event> joins_;                      // of every other stream
  bool under_way_ = false;                        // a step is launched whose end was not seen
  std::map<OperationId, Tensor>
      messages_;  // by send, or by producer where no send is, until the consumer takes it
  struct DeviceClock {
    Backend* of = nullptr;
    Event base;
    std::int64_t at_ns = 0;  // of the base, by the run's clock
  };
  std::map<int, DeviceClock> clocks_;  // by device
  std::unique_ptr<GraphCapture> capture_;
};

}  // namespace weir
