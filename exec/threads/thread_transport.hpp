// The transport between threads of one process: a message is handed over, not copied. Whoever frees
// the slot that a held message waits for moves it on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "exec/rank/transport.hpp"
#include "plan/program/program.hpp"

namespace weir {

class ThreadTransport : public Transport {
 public:
  // `spin`: ranks have a core each, so waiting may burn it; otherwise waiters sleep. `arenas`: per
  // rank, may be empty.
  ThreadTransport(const Program& program, std::vector<Arena*> arenas, Now now, bool spin);

  void begin_step(StepClock& clock) override;
  // Where ranks keep clocks of their own: this one's, behind begin_step and before the step.
  void keep_times(Rank rank, StepClock& clock) { clocks_[rank.position()] = &clock; }
  void send(std::int32_t edge, std::int32_t index, Tensor message) override;
  [[nodiscard]] Tensor receive(std::int32_t edge, std::int32_t index) override;
  void consumed(std::int32_t edge, std::int32_t index) override;
  void stop() override;

 private:
  struct Fifo {
    std::mutex mutex;
    std::vector<Tensor> messages;
    std::vector<std::uint8_t> produced, consumed;
    std::int32_t next = 0;                   // first message not yet delivered
    std::atomic<std::int32_t> delivered{0};  // = next, for waiters
  };
  void move_on(Fifo& edge, std::int32_t index_of_edge);  // with the edge's mutex held

  const Program& program_;
  std::vector<Arena*> arenas_;
  Now now_;
  bool spin_;
  std::vector<std::unique_ptr<Fifo>> edges_;
  std::vector<StepClock*> clocks_;  // by rank
  std::atomic<bool> stopped_{false};
};

}  // namespace weir
