// Draws plans. The order of the draws is part of what a seed means.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/evaluate/random_plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "plan/job/summary.hpp"
#include "plan/words/error.hpp"
#include "sim/partition/balanced.hpp"
#include "sim/search/partitions/layer_times.hpp"
#include "tools/app/profile/profiling.hpp"
#include "tools/app/shared/plan_fields.hpp"

namespace weir::app {
namespace {

// M of the first plans: the extremes first, since only plans that span the sizes tell what any size
// takes from what grows with it.
std::vector<int> one_of_each(std::vector<int> microbatches, int most) {
  if (microbatches.size() > 2)
    std::rotate(std::next(microbatches.begin()), std::prev(microbatches.end()), microbatches.end());
  if (std::ssize(microbatches) > most) microbatches.resize(static_cast<std::size_t>(most));
  return microbatches;
}

// Every stage has a layer.
bool ascends(const std::vector<int>& boundaries, const Model& model) {
  const int layers = static_cast<int>(model.layers.size());
  return std::ranges::is_sorted(boundaries, std::less_equal<>()) &&
         (boundaries.empty() || (boundaries.front() > 0 && boundaries.back() < layers));
}

}  // namespace

std::vector<Plan> random_plans(const RandomPlans& drawn, int count, const Plan& base,
                               const Model& model, const Costs& costs, const Cluster& cluster) {
  std::mt19937_64 random(drawn.seed);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const auto one_of = [&pick](const auto& list) {
    return list[static_cast<std::size_t>(pick(0, static_cast<int>(std::size(list)) - 1))];
  };
  const std::vector<int> microbatches = divisors(drawn.global_batch_size);
  const std::vector<int> first = one_of_each(microbatches, drawn.spanning);
  const char* const schedules[] = {"gpipe", "1f1b", "zb-h1"};
  const std::vector<const char*> modes = drawn.rematerialised
                                             ? std::vector{"none", "full", "stage", "except-last"}
                                             : std::vector{"none"};
  std::vector<Plan> plans;
  std::set<std::string> seen;
  for (int attempt = 0; std::ssize(plans) < count && attempt < 10'000; ++attempt) {
    Plan plan = base;
    plan.pp = one_of(drawn.stages);
    plan.microbatches = one_of(microbatches);
    // First the extremes of M (one_of_each): a random few might miss them.
    if (plans.size() < first.size()) plan.microbatches = first[plans.size()];
    plan.micro_batch_size = drawn.global_batch_size / plan.microbatches;
    plan.schedule = one_of(schedules);
    const std::string mode = one_of(modes);
    // The only micro-batch is the last: to spare it is to re-materialise nothing.
    plan.recompute =
        parse_recompute(mode == "except-last" && plan.microbatches == 1 ? "stage" : mode, "");
    // Near the best partition, not anywhere: users run such plans.
    plan.boundaries =
        best_boundaries(layer_times(plan, LayerCosts(plan, model, costs), cluster), plan.pp);
    for (int& boundary : plan.boundaries) boundary += pick(-1, 1);
    // A boundary moved onto its neighbour leaves a stage empty: drawn again.
    if (ascends(plan.boundaries, model) && seen.insert(summary(plan)).second) plans.push_back(plan);
  }
  if (std::ssize(plans) < count) {
    throw UsageError(fmt::format("only {} different plans exist for these sizes; {} were asked for",
                                 plans.size(), count));
  }
  return plans;
}

}  // namespace weir::app
