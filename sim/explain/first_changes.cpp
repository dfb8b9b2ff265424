// Goes from the plan in use to the best one by the smallest changes.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/first_changes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

namespace weir {
namespace {

constexpr double kWorth = 1.01;    // what a change must add
constexpr double kMost = 0.5;      // of what there is to gain: most of it
constexpr std::size_t kSteps = 3;  // before the best plan itself

// Better by how much, of the same time.
double speed(const Plan& plan, const Forecast& forecast) {
  return static_cast<double>(plan.global_batch_size()) / forecast.step_time.count();
}

// What all candidates of a search have as the plan in use has it.
auto kept_words(auto& plan) {
  return std::tie(plan.overlap_tensor_parallel, plan.overlap_experts, plan.overlap_grad_reduce,
                  plan.overlap_param_gather, plan.fp8_parameters, plan.offload_optimizer,
                  plan.offload_activations);
}

// Whether two plans differ, and in those words alone.
bool only_kept_words_differ(const Plan& a, const Plan& b) {
  Plan same = a;
  kept_words(same) = kept_words(b);
  return a != b && same == b;
}

class Steps {
 public:
  explicit Steps(const Improvement& improvement)
      : to_(improvement), base_speed_(speed(to_.present.plan, to_.base)) {}

  std::vector<FirstChange> all() && {
    const double best = speed(to_.best.plan, to_.best.forecast) / base_speed_;
    ResolvedPlan now = to_.present;
    double ratio = 1;
    while (steps_.size() < kSteps && best > kWorth * ratio && !over()) {
      std::optional<FirstChange> next = choose(now, ratio, best);
      if (!next) break;
      now = changed(now, next->plan);
      ratio = next->ratio;
      steps_.push_back(std::move(*next));
    }
    // What is still missing needs the best plan itself. Its arguments are counted from the plan in
    // use, because that is what the user has to edit.
    if (best > kWorth * ratio) {
      const ResolvedPlan last = changed(to_.present, to_.best.plan);
      const ArgumentCount arguments = to_.arguments(last);
      steps_.push_back({"the best plan", to_.best.plan, to_.best.forecast, best, arguments});
    }
    if (!over()) add_words_kept(best);
    return std::move(steps_);
  }

 private:
  [[nodiscard]] bool over() const { return to_.over && to_.over(); }

  // Of those that bring most of what is left the one with the fewest arguments, and of these the
  // fastest; where none does, the fastest.
  [[nodiscard]] std::optional<FirstChange> choose(const ResolvedPlan& now, double ratio,
                                                  double best) const {
    std::optional<FirstChange> chosen;
    const auto enough = [&](const FirstChange& one) {
      return one.ratio / ratio - 1 >= kMost * (best / ratio - 1);
    };
    for (FirstChange& one : candidates(now, ratio)) {
      if (!chosen) {
        chosen = std::move(one);
        continue;
      }
      const bool mine = enough(one), its = enough(*chosen);
      const int fewer = mine && its ? chosen->arguments.all() - one.arguments.all() : 0;
      const bool better = mine != its ? mine : fewer != 0 ? fewer > 0 : one.ratio > chosen->ratio;
      if (better) chosen = std::move(one);
    }
    return chosen;
  }

  [[nodiscard]] std::vector<FirstChange> candidates(const ResolvedPlan& now, double ratio) const {
    const Costs costs = to_.costs(now);
    std::vector<Change> all = changes_towards(now, to_.best.plan, costs, to_.cluster);
    std::ranges::move(changes(now, costs, to_.cluster), std::back_inserter(all));
    // A step that no candidate could have would lead past the best plan.
    std::erase_if(all, [&](const Change& change) {
      const auto words = kept_words(change.plan);
      return words != kept_words(now.plan) && words != kept_words(to_.best.plan);
    });
    return worthwhile(now, std::move(all), costs, ratio);
  }

  // What the search did not ask: the best plan with one other of the words it kept.
  void add_words_kept(double best) {
    const ResolvedPlan last = changed(to_.present, to_.best.plan);
    const Costs costs = to_.costs(last);
    std::vector<Change> all = changes(last, costs, to_.cluster);
    std::erase_if(
        all, [&](const Change& change) { return !only_kept_words_differ(change.plan, last.plan); });
    std::vector<FirstChange> found = worthwhile(last, std::move(all), costs, best);
    if (found.empty()) return;
    FirstChange& most = *std::ranges::max_element(found, {}, &FirstChange::ratio);
    most.searched = false;
    steps_.push_back(std::move(most));
  }

  // Of the changes those that the user can make and that are worth it, forecast.
  [[nodiscard]] std::vector<FirstChange> worthwhile(const ResolvedPlan& now,
                                                    std::vector<Change> all, const Costs& costs,
                                                    double ratio) const {
    // Left are changes that the user can make today: same mini-batch, same links, software and
    // devices that they have.
    std::erase_if(all, [&](const Change& change) {
      const bool same_batch =
          change.plan.global_batch_size() == to_.present.plan.global_batch_size();
      return change.cluster || !same_batch || !change.refused.empty() ||
             beyond(to_.software, change.plan) || change.plan.devices() > to_.cluster.devices();
    });
    const Forecast here = forecast_of(now, costs);
    std::vector<FirstChange> found;
    for (WhatIf& row : what_if(now, std::move(all), costs, to_.cluster, here, to_.over)) {
      if (!row.forecast || row.forecast->fits() != Fits::yes) continue;
      const double its = speed(row.change.plan, *row.forecast) / base_speed_;
      if (its < kWorth * ratio) continue;
      const ArgumentCount arguments = to_.arguments(changed(now, row.change.plan));
      found.push_back({row.change.choice + ": " + row.change.to, std::move(row.change.plan),
                       std::move(*row.forecast), its, arguments});
    }
    return found;
  }

  [[nodiscard]] Forecast forecast_of(const ResolvedPlan& plan, const Costs& costs) const {
    Forecast its = forecast(plan, costs, to_.cluster, {.detail = ForecastDetail::ranking}).forecast;
    its.memory_limit = to_.base.memory_limit;
    return its;
  }

  const Improvement& to_;
  const double base_speed_;
  std::vector<FirstChange> steps_;
};

}  // namespace

std::string to_text(const ArgumentCount& count) {
  std::vector<std::string> parts;
  const auto add = [&](const char* verb, int number) {
    if (number == 0) return;
    const char* noun = count.of_job ? "flag" : "key";
    const char* of = count.of_job ? "" : " of the plan";
    // The noun is said once.
    parts.push_back(
        parts.empty() ? fmt::format("{} {} {}{}{}", verb, number, noun, number == 1 ? "" : "s", of)
                      : fmt::format("{} {}", verb, number));
  };
  add("delete", count.removed);
  add("change", count.changed);
  add("add", count.added);
  return parts.empty() ? "nothing to change" : fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<FirstChange> first_changes(const Improvement& improvement) {
  return Steps(improvement).all();
}

}  // namespace weir
