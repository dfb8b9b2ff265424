// Finds runs that differ in one factor alone, and sums up what it does.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/measured/factor_effects.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "plan/words/names.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

constexpr Names<Factor, 10> kFactors{{{Factor::tp, "TP"},
                                      {Factor::pp, "PP"},
                                      {Factor::micro_batch, "b"},
                                      {Factor::sequence_parallel, "SP"},
                                      {Factor::recompute, "recompute"},
                                      {Factor::dp, "DP"},
                                      {Factor::cp, "CP"},
                                      {Factor::ep, "EP"},
                                      {Factor::vpp, "VPP"},
                                      {Factor::eight_bits, "FP8"}}};

// Of two of one mode the one with more modules or layers is the later.
int extent_of(const Recompute& recompute) {
  constexpr int kMost = 999;
  if (recompute.mode == RecomputeMode::selective)
    return static_cast<int>(std::ranges::count(recompute_word(recompute), '+'));
  int layers = 0;
  for (const LayerRange& range : recompute.layers) layers += range.size();
  return recompute.layers.empty() ? kMost : std::min(layers, kMost - 1);
}

// How much of the factor a run has.
int value_of(const Plan& plan, Factor factor) {
  switch (factor) {
    case Factor::tp:
      return plan.tp;
    case Factor::pp:
      return plan.pp;
    case Factor::micro_batch:
      return plan.micro_batch_size;
    case Factor::sequence_parallel:
      return plan.sequence_parallel ? 1 : 0;
    case Factor::recompute:
      // A mode's lists of modules or layers by how many they name.
      return 1000 * static_cast<int>(plan.recompute.mode) + extent_of(plan.recompute);
    case Factor::dp:
      return plan.dp;
    case Factor::cp:
      return plan.cp;
    case Factor::ep:
      return plan.ep;
    case Factor::vpp:
      return plan.vpp;
    case Factor::eight_bits:
      return plan.fp8 != Fp8Recipe::none ? 1 : 0;
  }
  return 0;
}

// Everything of the run but one factor and what follows from it. DP follows from the devices and
// the other degrees, so that it counts only where the factor is DP itself. Software that switches
// sequence parallelism on with TP, and interleaving with VPP, is not said to change two things.
std::string all_else(const MeasuredRun& run, Factor factor) {
  const Plan& plan = run.plan;
  std::string key = fmt::format(
      "{}|{}|{}|{}|{}|{}|{}|{}|{}", run.source, run.model_name, run.cluster.name,
      run.cluster.stack.name, run.cluster.stack.time.launch.value_or(Seconds(-1)).count(),
      static_cast<int>(plan.dtype), plan.seq_length, static_cast<int>(plan.attention), plan.zero);
  for (const auto& [other, name] : kFactors) {
    if (other == factor || other == Factor::dp) continue;
    if (other == Factor::sequence_parallel && factor == Factor::tp) continue;
    key += fmt::format("|{}", value_of(plan, other));
  }
  key += fmt::format("|{}|{}", to_string(plan.expert_dispatch), plan.overlap_experts);
  if (factor != Factor::vpp) key += "|" + plan.schedule;
  if (factor != Factor::recompute) key += "|" + recompute_word(plan.recompute);
  if (factor != Factor::eight_bits) key += fmt::format("|{}", static_cast<int>(plan.fp8));
  return key;
}

// What stays beside the factor: devices and mini-batch, or of DP either the micro-batches of a
// replica or the mini-batch.
std::vector<std::string> constant_beside(const Plan& plan, Factor factor) {
  if (factor != Factor::dp) return {fmt::format("{} {}", plan.devices(), plan.global_batch_size())};
  return {fmt::format("M {}", plan.microbatches), fmt::format("B {}", plan.global_batch_size())};
}

// Of runs that are equal but for the factor: each value's first run and the next value's.
void add_neighbours(const std::map<int, std::size_t>& by_value, Factor factor,
                    std::vector<FactorPair>& pairs) {
  for (auto next = by_value.begin(); next != by_value.end(); ++next) {
    if (next == by_value.begin()) continue;
    pairs.push_back({factor, std::prev(next)->second, next->second});
  }
}

}  // namespace

std::string_view to_string(Factor factor) { return name_of(kFactors, factor); }

std::vector<FactorPair> factor_pairs(std::span<const MeasuredRun> runs,
                                     std::span<const RunForecast> forecasts) {
  std::vector<FactorPair> pairs;
  for (const auto& [factor, name] : kFactors) {
    // Runs that differ in one factor alone, all else and one constant beside it alike.
    std::map<std::string, std::map<int, std::size_t>> alike;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const MeasuredRun& run = runs[i];
      // Only healthy runs that were forecast: a pair needs both figures.
      if (!run.step || !run.unhealthy.empty() || !forecasts[i].refusal.empty()) continue;
      for (const std::string& constant : constant_beside(run.plan, factor))
        alike[all_else(run, factor) + "|" + constant].emplace(value_of(run.plan, factor), i);
    }
    // Neighbours by value: what one step of the factor does.
    for (const auto& [key, by_value] : alike) add_neighbours(by_value, factor, pairs);
  }
  for (FactorPair& pair : pairs) {
    const auto measured = [&](std::size_t i) { return runs[i].step->seconds(); };
    pair.measured = std::log(measured(pair.second) / measured(pair.first));
    pair.forecast = std::log(forecasts[pair.second].step / forecasts[pair.first].step);
  }
  return pairs;
}

std::vector<FactorEffect> factor_effects(std::span<const FactorPair> pairs,
                                         std::span<const MeasuredRun> runs) {
  const double apart = std::log(1.02);  // less is what two runs of one plan differ by
  std::vector<FactorEffect> effects;
  for (const auto& [factor, name] : kFactors) {
    FactorEffect effect{factor};
    std::vector<double> measured, forecast, errors;
    std::set<std::string> sources;
    for (const FactorPair& pair : pairs) {
      if (pair.factor != factor) continue;
      measured.push_back(std::exp(pair.measured));
      forecast.push_back(std::exp(pair.forecast));
      errors.push_back(std::abs(std::exp(pair.forecast - pair.measured) - 1));
      sources.insert(runs[pair.first].source);
      if (std::abs(pair.measured) <= apart) continue;
      // Only pairs that are apart have a right side.
      ++effect.apart;
      effect.agreeing += pair.measured * pair.forecast > 0 ? 1 : 0;
    }
    if (errors.empty()) continue;
    effect.pairs = static_cast<int>(errors.size());
    effect.sources = static_cast<int>(sources.size());
    effect.measured = median(std::move(measured));
    effect.forecast = median(std::move(forecast));
    effect.error = median(std::move(errors));
    effects.push_back(effect);
  }
  return effects;
}

}  // namespace weir
