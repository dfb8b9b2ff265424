// An action as a pass of a stage, an update, or a timed wait.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/trainer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "exec/training/gradient_copies.hpp"
#include "plan/model/sample.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {
constexpr std::int64_t kLossBytes = sizeof(double);

}  // namespace

Messages Waiter::act(OperationId id, const Action&, Messages) {
  const std::int64_t duration = durations_[id.position()];
  if (duration > 0)
    std::this_thread::sleep_until(std::chrono::steady_clock::now() +
                                  std::chrono::nanoseconds(duration));
  return {};
}

std::size_t Training::logits_before(std::int64_t microbatch) const {
  const Plan& plan = loaded.plan;
  const auto& head = std::get<HeadShape>(loaded.model.layers.back().shape);
  const std::int64_t samples = plan.first_sample(microbatch) - plan.first_sample(first_microbatch);
  return static_cast<std::size_t>(samples * head.positions(plan.seq_length) * head.vocabulary);
}

Trainer::Trainer(Training& training, Backend& backend, GradientExchange& gradients, Rank rank)
    : training_(training),
      backend_(backend),
      gradients_(gradients),
      rank_(rank),
      rebuilds_(backend),
      words_of_sample_(sample_words(training.loaded.model, training.loaded.plan.seq_length)),
      tokens_of_microbatch_(training.loaded.plan.micro_batch_size * words_of_sample_),
      host_(backend.host_memory(
          training.program.shape().microbatches *
          (kLossBytes + tokens_of_microbatch_ * std::int64_t{sizeof(std::int32_t)}))) {
  const Plan& plan = training.loaded.plan;
  if (plan.overlap_grad_reduce && plan.dp > 1) last_gradient_ = last_gradients(training.program);
  for (const Operation& operation : training.program.operations()) {
    const Action& action = operation.action;
    const ScheduleShape& shape = training.program.shape();
    if (action.kind == ActionKind::F && shape.is_last(action.stage) &&
        shape.rank_of(action.stage) == rank) {
      owned_.push_back(action.microbatch.position());
    }
  }
}

double* Trainer::losses() const { return reinterpret_cast<double*>(host_.get()); }

std::int32_t* Trainer::tokens(std::int64_t microbatch) const {
  std::byte* first = host_.get() + training_.program.shape().microbatches * kLossBytes;
  return reinterpret_cast<std::int32_t*>(first) + microbatch * tokens_of_microbatch_;
}

void Trainer::begin_step(std::uint32_t step) {
  step_ = step;
  backend_.begin_step(step);
  if (!owned_.empty()) labels_ = training_.batches->labels(step);
  const Plan& plan = training_.loaded.plan;
  for (std::int32_t m = 0; m < training_.program.shape().microbatches; ++m) {
    const std::int64_t microbatch = training_.first_microbatch + m;
    for (std::int64_t sample = 0; sample < plan.samples_of(microbatch); ++sample) {
      const auto index = static_cast<std::uint32_t>(plan.first_sample(microbatch) + sample);
      training_.batches->sample(step, index, tokens(m) + sample * words_of_sample_);
    }
  }
}

void Trainer::end_step() {
  for (const std::size_t m : owned_) {
    training_.losses[m] = losses()[m];
    if (std::isfinite(losses()[m])) continue;
    throw RunFailed(fmt::format("step {}, micro-batch {}: the loss is {}", step_,
                                training_.first_microbatch + static_cast<std::int32_t>(m),
                                losses()[m]));
  }
}

void Trainer::forget_step() {
  const ScheduleShape& shape = training_.program.shape();
  for (const Stage stage : shape.all_stages()) {
    if (shape.rank_of(stage) == rank_) training_.stages[stage.position()]->forget_step();
  }
}

StageWorker::LayerDone Trainer::layer_done(OperationId id, Stage stage) {
  if (last_gradient_.empty() || last_gradient_[stage.position()] != id) return {};
  return [this, stage](int first, int count) { gradients_.whole(stage, first, count); };
}

Messages Trainer::act(OperationId id, const Action& action, Messages incoming) {
  if (action.kind == ActionKind::OPTIMIZER) {
    // An evaluation runs the plan's forwards and leaves the weights alone.
    if (!training_.evaluates) update(action.stage);
    return {};
  }
  const std::size_t m = action.microbatch.position();
  // Samples are numbered over all replicas, those of this one from its first micro-batch on.
  Pass pass{step_, training_.first_microbatch + action.microbatch.value, tokens(m), losses() + m};
  pass.labels = labels_;
  if (!training_.logits.empty()) {
    pass.logits = training_.logits.data() + training_.logits_before(pass.microbatch);
  }
  // R and W use what the stage keeps: they take and give no message.
  if (action.kind != ActionKind::F && !is_backward(action.kind)) {  // no messages
    static_cast<void>(act_on_row(id, action, pass, {}));
    return {};
  }
  StageWorker& stage = *training_.stages[action.stage.position()];
  const Tensor row = stage.join_row(pass, action.kind, std::move(incoming));
  return stage.part_row(pass, action.kind, act_on_row(id, action, pass, row));
}

Tensor Trainer::act_on_row(OperationId id, const Action& action, Pass pass, Tensor incoming) {
  if (training_.evaluates) return evaluate(action, pass, incoming);
  StageWorker& stage = *training_.stages[action.stage.position()];
  Tensor outgoing;
  // Only a layer at a time rebuilds within its backward: that part is timed for itself.
  if (is_backward(action.kind) && training_.loaded.plan.recompute.mode == RecomputeMode::full) {
    rebuilds_.begin_action(id);
    pass.rebuilds = &rebuilds_;
  }
  switch (action.kind) {
    case ActionKind::F:
      outgoing = forward(action, pass, incoming, keep(action));
      break;
    case ActionKind::R:
      stage.rematerialise(pass);
      break;
    case ActionKind::B:
      outgoing = stage.backward(pass, incoming, layer_done(id, action.stage));
      break;
    case ActionKind::I:
      outgoing = stage.backward_input(pass, incoming);
      break;
    default:
      stage.backward_weight(pass, layer_done(id, action.stage));
      break;
  }
  return outgoing;
}

Tensor Trainer::forward(const Action& action, const Pass& pass, Tensor incoming,
                        StageWorker::Keep keep) {
  StageWorker& stage = *training_.stages[action.stage.position()];
  Tensor outgoing = stage.forward(pass, incoming, keep);
  // A device's memory is read when the step has ended, and then only the losses.
  if (!backend_.in_host_memory()) return outgoing;
  const bool last = training_.program.shape().is_last(action.stage);
  // A finite loss stands for all that led to it: one number is looked at instead of every tensor.
  if (last && std::isfinite(*pass.loss)) return outgoing;
  if (const auto layer = stage.first_not_finite(pass, outgoing)) {
    const Model& model = training_.loaded.model;
    throw RunFailed(fmt::format("micro-batch {}: {} has made a number that is not finite{}",
                                pass.microbatch,
                                model.layers[static_cast<std::size_t>(*layer)].name,
                                last ? fmt::format(", and the loss is {}", *pass.loss) : ""));
  }
  return outgoing;
}

// The step's actions with their messages, of which only F computes.
Tensor Trainer::evaluate(const Action& action, const Pass& pass, Tensor incoming) {
  StageWorker& stage = *training_.stages[action.stage.position()];
  Pass evaluated = pass;
  evaluated.evaluates = true;
  switch (action.kind) {
    case ActionKind::F:
      return forward(action, evaluated, incoming, StageWorker::Keep::stage_input);
    case ActionKind::B:
    case ActionKind::I:
      return stage.discard(evaluated, incoming);
    default:  // R and W: nothing was kept
      return {};
  }
}

StageWorker::Keep Trainer::keep(const Action& forward) const {
  if (training_.program.spared(forward)) return StageWorker::Keep::everything;
  switch (training_.loaded.plan.recompute.mode) {
    case RecomputeMode::full:
      return StageWorker::Keep::layer_inputs;
    case RecomputeMode::stage:
      return StageWorker::Keep::stage_input;
    default:
      return StageWorker::Keep::everything;
  }
}

void Trainer::update(Stage stage) {
  StageWorker& worker = *training_.stages[stage.position()];
  worker.update({step_ + 1, gradients_.factor()},
                [&](std::size_t parameter) { return gradients_.copies(stage, parameter); });
  gradients_.updated(stage);
  worker.begin_step();
}

}  // namespace weir
