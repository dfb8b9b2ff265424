// Peaks by the tensors' count, anchored, and bounded by other stacks.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast/forecast_memory.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "costmodel/fit/builtin_interval.hpp"
#include "costmodel/memory/memory_rules.hpp"
#include "costmodel/memory/software_bounds.hpp"
#include "costmodel/table/dynamic_context.hpp"
#include "plan/job/stack_part.hpp"
#include "sim/forecast/forecast_notes.hpp"

namespace weir {
namespace {

// Of costs anchored to measured memory: all kinds alike.
RankMemory scaled(const RankMemory& memory, double factor) {
  RankMemory by_factor;
  for (const MemoryKind kind : kMemoryKinds) {
    const double bytes = static_cast<double>(memory.at_peak[kind].count()) * factor;
    by_factor.at_peak[kind] = Bytes(std::llround(bytes));
    by_factor.peak += by_factor.at_peak[kind];
  }
  by_factor.process = Bytes(std::llround(static_cast<double>(memory.process.count()) * factor));
  const double upper = static_cast<double>(memory.upper.count()) * factor;
  // Rounding each kind may pass a bound: the peak stays between the least and the upper bound.
  by_factor.upper = std::max(by_factor.peak, Bytes(std::llround(upper)));
  const double least = static_cast<double>(memory.least.count()) * factor;
  by_factor.least = std::min(by_factor.peak, Bytes(std::llround(least)));
  return by_factor;
}

// Where memory was measured on the cluster, runs of other clusters whose memory was anchored too
// say how far it may be off. Theirs is a band to both sides, so that one peak in twenty is above.
void narrow_band(Forecast& f, const Costs& costs, const Cluster& cluster) {
  const bool measured =
      costs.anchor && std::ranges::any_of(costs.anchor->runs,
                                          [](const auto& run) { return run.memory.has_value(); });
  if (!measured || !cluster.device.kernels) return;
  const auto band =
      builtin_interval(cluster.name, cluster.stack.name, BuiltinQuantity::anchored_memory);
  if (!band) return;
  for (RankMemory& rank : f.memory) {
    const double upper = static_cast<double>(rank.peak.count()) * std::exp(band->half_width);
    // A band only narrows what the tensors' count says, and never below the expectation.
    rank.upper = std::max(rank.peak, std::min(rank.upper, Bytes(std::llround(upper))));
  }
}

}  // namespace

std::optional<HeldSequence> fullest_sequence(const ResolvedPlan& loaded, const Stack& stack) {
  if (loaded.plan.lengths.dynamic_cp == 0) return std::nullopt;
  HeldSequence held{derive(of_fullest_sequence(loaded.plan), loaded.model, loaded.schedule), {}};
  const Plan& plan = held.plan.plan;
  held.part = stack.own_tensors
                  ? held.plan.part
                  : std::make_shared<const ModelPart>(
                        stack_part(loaded.model, plan.seq_length, plan.dtype, plan.split(), stack));
  return held;
}

void add_memory(Forecast& f, const ResolvedPlan& loaded, const Costs& costs, const Cluster& cluster,
                std::vector<RankMemory> counted) {
  f.memory = std::move(counted);
  f.rank_memory_limits = rank_memory(loaded.plan, cluster);
  for (RankMemory& rank : f.memory) rank = scaled(rank, costs.factors().memory);
  // After the scaling: a band is around the anchored peak.
  narrow_band(f, costs, cluster);
  warn_of_crowded_memory(loaded.plan, cluster, f);
}

bool surely_within(const Forecast& f, Bytes limit) {
  if (f.host_fits() != Fits::yes) return false;
  for (std::size_t r = 0; r < f.memory.size(); ++r) {
    const Bytes its =
        f.rank_memory_limits.empty() ? limit : std::min(limit, f.rank_memory_limits[r]);
    if (f.memory[r].upper > its) return false;
  }
  return true;
}

void add_software_bounds(Forecast& f, const ResolvedPlan& loaded, const SoftwareParts& parts,
                         const Stack& stack, bool with_least, const PeaksBy& peaks) {
  if (parts.lean && with_least) {
    const auto least = peaks(leanest(stack, loaded.plan), *parts.lean);
    // A bound from below is never above what is expected.
    for (std::size_t r = 0; r < f.memory.size(); ++r)
      f.leanest.push_back(std::min(f.memory[r].peak, least[r].peak));
  }
  if (parts.ample) {
    const auto most = peaks(amplest(stack, loaded.plan), *parts.ample);
    for (std::size_t r = 0; r < f.memory.size(); ++r)
      f.memory[r].upper = std::max(f.memory[r].upper, most[r].upper);
  }
}

}  // namespace weir
