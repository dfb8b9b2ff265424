// SPDX-License-Identifier: Apache-2.0
#include "exec/rank_work.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <tuple>

namespace weir {
namespace {
std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

constexpr std::int64_t kLossBytes = sizeof(double);

}  // namespace

Tensor Waiter::act(OperationId id, const Action&, Tensor) {
  const std::int64_t duration = durations_[at(id)];
  if (duration > 0)
    std::this_thread::sleep_until(std::chrono::steady_clock::now() + std::chrono::nanoseconds(duration));
  return {};
}

Trainer::Trainer(Shared& shared, Backend& backend, Rank rank)
    : shared_(shared),
      backend_(backend),
      tokens_of_microbatch_(shared.loaded.plan.micro_batch_size * (shared.loaded.plan.seq_length + 1)),
      host_(backend.host_memory(shared.program.shape.microbatches *
                                (kLossBytes + tokens_of_microbatch_ * std::int64_t{sizeof(std::int32_t)}))) {
  for (const Operation& operation : shared.program.operations) {
    const Action& action = operation.action;
    const ScheduleShape& shape = shared.program.shape;
    if (action.kind == ActionKind::F && shape.is_last(action.stage) && shape.rank_of(action.stage) == rank) {
      owned_.push_back(at(action.microbatch.value));
    }
  }
}

double* Trainer::losses() const { return reinterpret_cast<double*>(host_.get()); }

std::int32_t* Trainer::tokens(std::size_t microbatch) const {
  std::byte* first = host_.get() + shared_.program.shape.microbatches * kLossBytes;
  return reinterpret_cast<std::int32_t*>(first) + static_cast<std::int64_t>(microbatch) * tokens_of_microbatch_;
}

void Trainer::begin_step(std::uint32_t step) {
  step_ = step;
  backend_.begin_step(step);
  const Plan& plan = shared_.loaded.plan;
  for (std::int32_t m = 0; m < shared_.program.shape.microbatches; ++m) {
    for (int sample = 0; sample < plan.micro_batch_size; ++sample) {
      const auto index = static_cast<std::uint32_t>(m * plan.micro_batch_size + sample);
      shared_.batches.sample(step, index, tokens(at(m)) + sample * (plan.seq_length + 1));
    }
  }
}

void Trainer::end_step() {
  for (const std::size_t m : owned_) shared_.losses[m] = losses()[m];
}

Tensor Trainer::act(OperationId, const Action& action, Tensor incoming) {
  StageWorker& stage = *shared_.stages[at(action.stage.value)];
  Tensor outgoing;
  if (action.kind == ActionKind::OPTIMIZER) {
    update(action.stage);
    return outgoing;
  }
  const std::size_t m = at(action.microbatch.value);
  const Pass pass{step_, action.microbatch.value, tokens(m), losses() + m};
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
