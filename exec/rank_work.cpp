// SPDX-License-Identifier: Apache-2.0
#include "exec/rank_work.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <tuple>

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

Trainer::Trainer(Shared& shared, Backend& backend) : shared_(shared), backend_(backend) {
  const Plan& plan = shared.loaded.plan;
  tokens_.resize(at(shared.program.shape.microbatches));
  for (auto& tokens : tokens_) tokens.resize(static_cast<std::size_t>(plan.micro_batch_size * (plan.seq_length + 1)));
}

void Trainer::begin_step(std::uint32_t step) {
  step_ = step;
  backend_.begin_step(step);
  const Plan& plan = shared_.loaded.plan;
  for (std::size_t m = 0; m < tokens_.size(); ++m) {
    for (int sample = 0; sample < plan.micro_batch_size; ++sample) {
      const auto index = static_cast<std::uint32_t>(static_cast<int>(m) * plan.micro_batch_size + sample);
      shared_.batches.sample(step, index, &tokens_[m][static_cast<std::size_t>(sample * (plan.seq_length + 1))]);
    }
  }
}

Tensor Trainer::act(OperationId, const Action& action, Tensor incoming) {
  StageWorker& stage = *shared_.stages[at(action.stage.value)];
  Tensor outgoing;
  if (action.kind == ActionKind::OPTIMIZER) {
    update(action.stage);
    return outgoing;
  }
  const std::size_t m = at(action.microbatch.value);
  const Pass pass{step_, action.microbatch.value, tokens_[m].data(), &shared_.losses[m]};
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
  const Plan& plan = shared_.loaded.plan;
  const bool kept = plan.recompute.mode == RecomputeMode::none ||
                    (plan.recompute.except_last && forward.microbatch.value == plan.microbatches - 1);
  return kept ? StageWorker::Keep::everything : StageWorker::Keep::input_only;
}

void Trainer::update(Stage stage) {
  StageWorker& worker = *shared_.stages[at(stage.value)];
  worker.update(step_ + 1, [&](const Parameter& parameter) { return copies_of(parameter, stage); });
  backend_.finish();
  worker.begin_step();
}

// Gradients of every use of a parameter, in layer order and then by replica; none for a use that is updated elsewhere
// on this stage.
std::vector<Tensor> Trainer::copies_of(const Parameter& parameter, Stage stage) const {
  if (!parameter.owns_weight) return {};
  const ScheduleShape& shape = shared_.program.shape;
  const std::string& tie = parameter.description.tied_with;
  std::vector<std::tuple<int, std::int32_t, Tensor>> found;
  for (std::int32_t other = 0; other < shape.total_stages(); ++other) {
    if (other % shape.stages != stage.value % shape.stages && tie.empty()) continue;
    for (const Parameter& candidate : shared_.stages[at(other)]->parameters()) {
      const bool same = candidate.layer == parameter.layer && candidate.tensor == parameter.tensor;
      const bool tied = !tie.empty() && candidate.description.tied_with == tie;
      if (same || tied) found.emplace_back(candidate.layer, other, candidate.gradient);
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  std::vector<Tensor> gradients;
  for (const auto& [layer, other, gradient] : found) gradients.push_back(gradient);
  return gradients;
}

}  // namespace weir
