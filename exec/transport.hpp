// The thread transport: one FIFO per directed edge between two ranks of this process. A message is handed over, not
// copied. A full edge holds the message back without stopping the sender: whoever frees the slot it waits for moves it
// on. Message i needs the slot of message i - slots, whose consumer must have ended.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "exec/arena.hpp"
#include "plan/program.hpp"
#include "plan/units.hpp"

namespace weir {

// When each operation of a step started and ended, by the run's clock; index = OperationId. Each entry is written by
// one thread only and read after the step's barrier.
struct StepClock {
  std::vector<std::int64_t> start_ns, end_ns;
};

class ThreadTransport {
 public:
  using Now = std::int64_t (*)();
  // `spin`: ranks have a core each, so waiting may burn it; otherwise waiters sleep. `arenas`: per rank, may be empty.
  ThreadTransport(const Program& program, std::vector<Arena*> arenas, Now now, bool spin);

  void begin_step(StepClock& clock);                                    // between steps, one thread
  void send(std::int32_t edge, std::int32_t index, Tensor message);     // never blocks
  [[nodiscard]] Tensor receive(std::int32_t edge, std::int32_t index);  // waits; throws Stopped after stop()
  void consumed(std::int32_t edge, std::int32_t index);                 // frees the slot
  void stop();                                                          // a rank failed: wakes all that wait

  struct Stopped {};

 private:
  struct Edge {
    std::mutex mutex;
    std::vector<Tensor> messages;
    std::vector<std::uint8_t> produced, consumed;
    std::int32_t next = 0;                   // first message not yet delivered
    std::atomic<std::int32_t> delivered{0};  // = next, for waiters
  };
  void move_on(Edge& edge, std::int32_t index_of_edge);  // with the edge's mutex held

  const Program& program_;
  std::vector<Arena*> arenas_;
  Now now_;
  bool spin_;
  std::vector<std::unique_ptr<Edge>> edges_;
  StepClock* clock_ = nullptr;
  std::atomic<bool> stopped_{false};
};

}  // namespace weir
