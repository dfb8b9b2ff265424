// How messages get from rank to rank: one FIFO per directed edge. A full edge holds a message back
// without stopping the sender. Message i needs the slot of message i - slots, whose consumer must
// have ended. Between threads of one process a message is handed over (thread_transport), between
// processes it is sent (processes/mpi, nccl).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/device/arena.hpp"

namespace weir {

// When each operation of a step started and ended, by the run's clock; index = OperationId. Each
// entry is written by one thread only and read after the step's barrier.
struct StepClock {
  std::vector<std::int64_t> start_ns, end_ns;
  std::vector<std::int64_t> rebuild_ns;  // of it, what rebuilt layers; empty: nobody asked

  void resize(std::size_t operations) {
    for (auto* times : {&start_ns, &end_ns, &rebuild_ns}) times->resize(operations);
  }
  [[nodiscard]] std::int64_t rebuilt_ns(std::size_t operation) const {
    return rebuild_ns.empty() ? 0 : rebuild_ns[operation];
  }
};

class Transport {
 public:
  using Now = std::int64_t (*)();
  struct Stopped {};  // thrown to those who wait when a rank failed

  virtual ~Transport() = default;
  virtual void begin_step(StepClock& clock) = 0;  // between steps, one thread
  virtual void send(std::int32_t edge, std::int32_t index, Tensor message) = 0;  // never blocks
  [[nodiscard]] virtual Tensor receive(std::int32_t edge,
                                       std::int32_t index) = 0;      // waits; throws Stopped
  virtual void consumed(std::int32_t edge, std::int32_t index) = 0;  // frees the slot
  virtual void stop() = 0;  // a rank failed: wakes all that wait
};

}  // namespace weir
