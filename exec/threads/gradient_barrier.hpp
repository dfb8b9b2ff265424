// The exchange between threads of one process: nothing is moved, the optimizer of a stage waits
// until the last backward of every copy has ended and reads the copies' gradients in place. Where
// gradients are clipped it waits until every rank has made its squares of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/rank/gradient_exchange.hpp"
#include "exec/rank/stage.hpp"
#include "exec/training/gradient_copies.hpp"
#include "exec/training/gradient_norm.hpp"

namespace weir {

class GradientBarrier : public GradientExchange {
 public:
  // `stages` and `copies` are empty for timed waits.
  struct Setup {
    const Program& program;
    const Stages& stages;
    GradientCopies copies;
    GradientNorm norm;
    bool spin = false;
    Transport::Now now;
  };
  explicit GradientBarrier(Setup setup);

  // Steps are numbered from 0 again. Call it between steps, while all ranks rest.
  void restart();
  void ended(OperationId id, std::uint32_t step) override;
  // REDUCE_GRAD: at the moment the last gradient was there; where gradients are clipped until their
  // squares are made.
  void await(OperationId optimizer, std::uint32_t step, StepClock& clock) override;
  [[nodiscard]] std::vector<Tensor> copies(Stage stage, std::size_t parameter) override;
  [[nodiscard]] double factor() const override { return norm_.factor(); }
  [[nodiscard]] std::optional<double> norm() const override { return norm_.norm(); }
  void end_step() override {}  // the barrier comes before anybody overwrites
  void stop() override;

 private:
  using Counter = std::atomic<std::uint32_t>;  // of steps

  void await_count(Counter& counter, std::uint32_t step);
  void count(Counter& counter, std::uint32_t step);
  // When the last of a reduction's gradients was there.
  [[nodiscard]] std::int64_t await_gradients(OperationId reduce, std::uint32_t step,
                                             const StepClock& clock);
  // Makes the squares of the rank's stages, once a step, and waits for all others'.
  void await_norm(Rank rank, std::uint32_t step, StepClock& clock);
  void make_squares(OperationId reduce, std::uint32_t step, StepClock& clock);

  const Program& program_;
  const Stages& stages_;
  GradientCopies copies_;
  bool spin_;
  Transport::Now now_;
  std::vector<OperationId> last_gradient_;  // by stage
  GradientNorm norm_;
  // By stage: steps whose gradients are whole; by rank: steps whose squares are made.
  std::unique_ptr<Counter[]> opened_, squared_;
  std::atomic<bool> stopped_{false};
};

}  // namespace weir
