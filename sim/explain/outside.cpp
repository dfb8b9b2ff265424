// Opens what the stack closes, and asks for the best plan of each value.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/outside.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/job/summary.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "sim/search/space/open_choices.hpp"
#include "sim/search/sweep.hpp"

namespace weir {
namespace {

constexpr int kEffort = 8;  // for the best of all; each value has a search of its own

class Outside {
 public:
  explicit Outside(StackAbilities within) : within_(std::move(within)) {}

  std::vector<Family> families() {
    for (const Generator& generator : generators()) add_schedule(std::string(generator.name));
    for (const RecomputeMode mode : {RecomputeMode::none, RecomputeMode::selective,
                                     RecomputeMode::full, RecomputeMode::stage}) {
      add_recompute(mode);
    }
    for (const int zero : {0, 1, 2, 3}) add_zero(zero);
    return std::move(families_);
  }

 private:
  // Whether the list says what there is, without the value.
  template <class Value>
  static bool lacks(const std::vector<Value>& list, const Value& value) {
    return !list.empty() && std::ranges::find(list, value) == list.end();
  }

  void add_schedule(const std::string& name) {
    if (!lacks(within_.schedules, name)) return;
    // What it lacks is this schedule alone: all degrees are still within what it runs.
    const auto has = [name, within = within_](const Plan& plan) {
      return plan.pp > 1 && plan.schedule == name && !degrees_beyond(within, plan);
    };
    families_.push_back({"schedule", name, has});
  }

  void add_recompute(RecomputeMode mode) {
    if (!lacks(within_.recompute, mode)) return;
    // With the one value added, all else is held to what the software runs.
    StackAbilities with = within_;
    with.recompute.push_back(mode);
    const auto has = [mode, with](const Plan& plan) {
      return plan.recompute.mode == mode && !beyond(with, plan);
    };
    families_.push_back({"re-materialisation", to_text(Recompute{.mode = mode}), has});
  }

  void add_zero(int zero) {
    // The list of stages is of pipelines only.
    if (!within_.pipeline || !lacks(within_.zero, zero)) return;
    StackAbilities with = within_;
    with.zero.push_back(zero);
    const auto has = [zero, with](const Plan& plan) {
      return plan.pp > 1 && plan.zero == zero && !beyond(with, plan);
    };
    families_.push_back({"ZeRO", fmt::format("stage {} in a pipeline", zero), has});
  }

  const StackAbilities within_;
  std::vector<Family> families_;
};

// Whether something ended the search before it could say of each value whether a plan fits. It may
// end long before its budget: without a best plan it asks for no value. Without a budget or a
// signal a value that was not come to is one of which the effort found nothing.
bool was_cut(const SweepRequest& request, const SweepResult& found) {
  if (found.stopped_after || !found.listed) return true;
  if (!request.budget) return false;
  if (found.plans.empty()) return std::isinf(found.gap);
  return std::ranges::any_of(found.families, &FamilyBest::not_come_to);
}

}  // namespace

OutsideRows outside(const SweepRequest& asked, const Ranked& best, const Costs& costs,
                    const Cluster& cluster) {
  Model model = load_model(asked.folder / asked.base.model_path);
  set_treatment(model, asked.base);
  const StackAbilities within = *with_open_choices(asked, model, cluster).within;
  if (within == StackAbilities{}) return {};
  SweepRequest request = asked;
  // The same search with everything open. Of each value only its best plan is read, and nothing of
  // this search is the user's: no checkpoint, no progress, no front.
  request.within = StackAbilities{};
  request = with_open_choices(std::move(request), model, cluster);
  request.families = Outside(within).families();
  if (request.families.empty()) return {};
  request.keep = 1;
  request.effort = kEffort;
  request.front = false;
  request.baseline.reset();
  request.progress = {};
  request.checkpoint = {};
  request.resume.reset();
  request.party.reset();
  const SweepResult found = sweep(request, costs, cluster);
  OutsideRows all{.cut = was_cut(request, found)};
  for (std::size_t i = 0; i < found.families.size(); ++i) {
    const FamilyBest& its = found.families[i];
    if (!its.best) continue;
    const Family& family = request.families[i];
    all.rows.push_back({.choice = family.choice,
                        .value = family.value,
                        .best = its.best,
                        .ratio = its.best->forecast.step_time / best.forecast.step_time,
                        .gap = its.gap,
                        .reason = {}});
  }
  std::ranges::stable_sort(all.rows, {}, &Rejected::ratio);
  return all;
}

}  // namespace weir
