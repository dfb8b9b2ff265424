// What a rank does with an action: train its stages, or wait for a given time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "exec/rank/interpreter.hpp"
#include "exec/rank/stage.hpp"
#include "exec/training/batches.hpp"

namespace weir {

// Timed waits, no training.
class Waiter : public ActionHandler {
 public:
  explicit Waiter(const std::vector<std::int64_t>& durations_ns) : durations_(durations_ns) {}
  void begin_step(std::uint32_t) override {}
  Messages act(OperationId id, const Action&, Messages) override;
  void finish() override {}
  void end_step() override {}

 private:
  const std::vector<std::int64_t>& durations_;  // by operation
};

// What the ranks of one training run have in common.
struct Training {
  Training(const ResolvedPlan& plan, const Program& lowered, const Batches& data, StateSource first)
      : loaded(plan),
        program(lowered),
        batches(&data),
        state(std::move(first)),
        stages(static_cast<std::size_t>(lowered.shape().total_stages())),
        losses(static_cast<std::size_t>(lowered.shape().units())) {}
  const ResolvedPlan& loaded;
  const Program& program;
  // Set between steps, by whoever begins them.
  const Batches* batches;     // outlive this
  bool evaluates = false;     // steps compute losses without dropout, and train nothing
  std::vector<float> logits;  // [sample, s, V], where a step is to leave them; else empty

  // Of this replica: how many logits are in front of a micro-batch's (its number among all), and
  // how many there are.
  [[nodiscard]] std::size_t logits_before(std::int64_t microbatch) const;
  [[nodiscard]] std::size_t all_logits() const {
    return logits_before(first_microbatch + static_cast<std::int64_t>(losses.size()));
  }

  StateSource state;  // what the stages begin with
  std::int32_t first_microbatch =
      0;          // of this replica among those of all replicas: which samples and masks it draws
  Stages stages;  // by global stage
  std::vector<double> losses;  // by micro-batch of this replica
};

class Trainer : public ActionHandler {
 public:
  Trainer(Training& training, Backend& backend, GradientExchange& gradients, Rank rank);
  void begin_step(std::uint32_t step) override;  // draws the step's tokens
  Messages act(OperationId id, const Action& action, Messages incoming) override;
  void finish() override { backend_.finish(); }
  void end_step() override;  // gathers the losses that this rank computed
  void forget_step() override;
  void read_rebuilds(StepClock& clock) const override { rebuilds_.read(clock); }

 private:
  [[nodiscard]] std::int32_t* tokens(std::int64_t microbatch) const;
  [[nodiscard]] double* losses() const;
  // The action on whole rows.
  [[nodiscard]] Tensor act_on_row(OperationId id, const Action& action, Pass pass, Tensor incoming);
  // F, and a look at what it made: throws RunFailed where a number is not finite, which every loss
  // and weight after it would be too.
  [[nodiscard]] Tensor forward(const Action& action, const Pass& pass, Tensor incoming,
                               StageWorker::Keep keep);
  [[nodiscard]] Tensor evaluate(const Action& action, const Pass& pass, Tensor incoming);
  [[nodiscard]] StageWorker::Keep keep(const Action& forward) const;
  [[nodiscard]] StageWorker::LayerDone layer_done(OperationId id, Stage stage);
  void update(Stage stage);

  Training& training_;
  Backend& backend_;
  GradientExchange& gradients_;
  Rank rank_;
  RebuildClock rebuilds_;
  std::uint32_t step_ = 0;
  std::optional<std::int64_t> labels_;  // of the step's mini-batch, at ranks that compute losses
  std::int64_t words_of_sample_, tokens_of_microbatch_;
  HostMemory host_;                         // losses, then tokens, by micro-batch
  std::vector<std::size_t> owned_;          // micro-batches whose loss this rank computes
  std::vector<OperationId> last_gradient_;  // by stage, where its reduction overlaps it; else empty
};

}  // namespace weir
