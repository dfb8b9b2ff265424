// The exchange between threads of one process: nothing is moved, the optimizer of a stage waits
// until the last backward of every copy has ended and reads the copies' gradients in place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/rank/gradient_exchange.hpp"
#include "exec/rank/stage.hpp"
#include "exec/training/gradient_copies.hpp"

namespace weir {

class GradientBarrier : public GradientExchange {
 public:
  // `stages` and `copies` are empty for timed waits.
  GradientBarrier(const Program& program, const Stages& stages, GradientCopies copies, bool spin);

  void ended(OperationId id, std::uint32_t step) override;
  // REDUCE_GRAD: at the moment the last gradient was there.
  void await(OperationId optimizer, std::uint32_t step, StepClock& clock) override;
  [[nodiscard]] std::vector<Tensor> copies(Stage stage, std::size_t parameter) override;
  void end_step() override {}  // the barrier comes before anybody overwrites
  void stop() override;

 private:
  void await_stage(std::int32_t stage, std::uint32_t step);

  const Program& program_;
  const Stages& stages_;
  GradientCopies copies_;
  bool spin_;
  std::vector<OperationId> last_gradient_;  // by stage
  std::unique_ptr<std::atomic<std::uint32_t>[]>
      opened_;  // by stage: steps whose gradients are whole
  std::atomic<bool> stopped_{false};
};

}  // namespace weir
