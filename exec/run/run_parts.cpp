// The clock, data, checks and medians that both kinds of run use.
// SPDX-License-Identifier: Apache-2.0
#include "exec/run/run_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "plan/words/error.hpp"
#include "traces/stats.hpp"

namespace weir {

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

Batches open_batches(const ResolvedPlan& loaded, const RunOptions& options) {
  const auto& embedding = std::get<EmbeddingShape>(loaded.model.layers.front().shape);
  return {options.data, embedding.vocabulary, loaded.plan.seq_length, loaded.plan.seed};
}

void require_durations(const Program& program, const RunOptions& options) {
  if (options.synthetic_duration_ns.size() != program.size()) {
    throw RunFailed("the synthetic backend needs a duration for every operation");
  }
}

std::int64_t compute_actions(const Program& program, std::optional<Rank> of) {
  std::int64_t actions = 0;
  for (const Lane& lane : program.lanes()) {
    if (lane.kind == LaneKind::compute && (!of || lane.rank == *of))
      actions += lane.last - lane.first;
  }
  return actions;
}

Seconds median_step(const std::vector<StepResult>& steps, int warmup) {
  std::vector<double> measured;
  for (auto step = steps.begin() + warmup; step < steps.end(); ++step)
    measured.push_back(step->time.count());
  return measured.empty() ? Seconds(0) : Seconds(median(measured));
}

}  // namespace weir
