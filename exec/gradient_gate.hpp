// Where the copies of a weight meet: the optimizer of a stage that shares weights (ties, replicas) waits until the last
// backward of every copy has ended. In one process nothing is moved: the optimizer reads the copies' gradients in
// place. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/transport.hpp"
#include "plan/program.hpp"

namespace weir {

class GradientGate {
 public:
  GradientGate(const Program& program, bool spin);

  // Called after each operation of a compute lane: opens the gate of its stage if it was the stage's last gradient.
  void ended(OperationId id, std::uint32_t step);
  // Waits for all that `optimizer` waits for, and writes its stage's REDUCE_GRAD into the clock: at the moment the last
  // gradient was there. Throws ThreadTransport::Stopped after stop().
  void await(OperationId optimizer, std::uint32_t step, StepClock& clock);
  void stop();

 private:
  void await_stage(std::int32_t stage, std::uint32_t step);

  const Program& program_;
  bool spin_;
  std::vector<OperationId> last_gradient_;                // by stage
  std::unique_ptr<std::atomic<std::uint32_t>[]> opened_;  // by stage: steps whose gradients are whole
  std::atomic<bool> stopped_{false};
};

}  // namespace weir
