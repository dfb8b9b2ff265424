// SPDX-License-Identifier: Apache-2.0
#include "exec/rank_work.hpp"

#include <chrono>
#include <thread>

namespace weir {
namespace {
std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
}  // namespace

Tensor Waiter::act(OperationId id, const Action&, Tensor) {
  const std::int64_t duration = durations_[at(id)];
  if (duration > 0)
    std::this_thread::sleep_until(std::chrono::steady_clock::now() + std::chrono::nanoseconds(duration));
  return {};
}

Trainer::Trainer(Training& training, Backend& backend, GradientExchange& gradients)
    : training_(training), backend_(backend), gradients_(gradients) {
  const Plan& plan = training.loaded.plan;
  tokens_.resize(at(training.program.shape.microbatches));
  for (auto& tokens : tokens_) tokens.resize(static_cast<std::size_t>(plan.micro_batch_size * (plan.seq_length + 1)));
}

void Trainer::begin_step(std::uint32_t step) {
  step_ = step;
  const Plan& plan = training_.loaded.plan;
  for (std::size_t m = 0; m < tokens_.size(); ++m) {
    for (int sample = 0; sample < plan.micro_batch_size; ++sample) {
      const auto microbatch = training_.first_microbatch + static_cast<std::int32_t>(m);
      const auto index = static_cast<std::uint32_t>(microbatch * plan.micro_batch_size + sample);
      training_.batches.sample(step, index, &tokens_[m][static_cast<std::size_t>(sample * (plan.seq_length + 1))]);
    }
  }
}

Tensor Trainer::act(OperationId, const Action& action, Tensor incoming) {
  StageWorker& stage = *training_.stages[at(action.stage.value)];
  Tensor outgoing;
  if (action.kind == ActionKind::OPTIMIZER) {
    update(action.stage);
    return outgoing;
  }
  const std::size_t m = at(action.microbatch.value);
  const Pass pass{step_, training_.first_microbatch + action.microbatch.value, tokens_[m].data(), &training_.losses[m]};
  switch (action.kind) {
    case ActionKind::F:
      outgoing = stage.forward(pass, incoming, keep(action));
      break;
    case ActionKind::R:
      stage.rematerialise(pass);
      break;
    case ActionKind::B:
      outgoing = stage.backward(pass, incoming);
      break;
    case ActionKind::I:
      outgoing = stage.backward_input(pass, incoming);
      break;
    default:
      stage.backward_weight(pass);
      break;
  }
  backend_.finish();
  return outgoing;
}

StageWorker::Keep Trainer::keep(const Action& forward) const {
  const Plan& plan = training_.loaded.plan;
  const bool kept = plan.recompute.mode == RecomputeMode::none ||
                    (plan.recompute.except_last && forward.microbatch.value == plan.microbatches - 1);
  return kept ? StageWorker::Keep::everything : StageWorker::Keep::input_only;
}

void Trainer::update(Stage stage) {
  StageWorker& worker = *training_.stages[at(stage.value)];
  worker.update(step_ + 1, [&](std::size_t parameter) { return gradients_.copies(stage, parameter); });
  backend_.finish();
  worker.begin_step();
}

}  // namespace weir
