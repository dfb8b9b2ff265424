// Searches parts of a space, one for each value that was not chosen.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/rejected.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "plan/job/summary.hpp"
#include "sim/search/sweep.hpp"

namespace weir {
namespace {

// Plans refined for each value, before its search settles for a gap.
constexpr int kEffortEach = 16;

// The plans of a space that have one value of a choice.
struct Family {
  std::string choice, value;
  std::function<bool(const Plan&)> has;
  std::vector<SweepRequest> parts;  // of the space, which hold all of them
};

std::vector<int> without_one(std::vector<int> degrees) {
  std::erase(degrees, 1);
  return degrees;
}

class Families {
 public:
  explicit Families(const SweepRequest& request) : space_(request) {
    space_.progress = {};
    space_.budget.reset();
    space_.effort = kEffortEach;
    if (space_.keep) space_.keep = 1;
  }

  std::vector<Family> all() {
    add_schedules();
    add_recompute();
    add_zero();
    add_degrees("K", &SweepRequest::pp, &Plan::pp);
    add_degrees("tp", &SweepRequest::tp, &Plan::tp);
    add_degrees("cp", &SweepRequest::cp, &Plan::cp);
    add_degrees("dp", &SweepRequest::dp, &Plan::dp);
    add_degrees("ep", &SweepRequest::ep, &Plan::ep);
    // With one choice there is nothing to reject.
    if (space_.etp.size() > 1) add_degrees("etp", &SweepRequest::etp, &Plan::etp);
    return std::move(families_);
  }

 private:
  void add_schedules() {
    SweepRequest part = space_;
    part.pp = without_one(part.pp);
    if (part.pp.empty()) return;
    for (const std::string& name : space_.schedules) {
      part.schedules = {name};
      const auto has = [name](const Plan& plan) { return plan.pp > 1 && plan.schedule == name; };
      families_.push_back({"schedule", name, has, {part}});
    }
  }

  void add_recompute() {
    for (const Recompute& recompute : space_.recompute) {
      SweepRequest part = space_;
      part.recompute = {recompute};
      const auto has = [recompute](const Plan& plan) { return plan.recompute == recompute; };
      families_.push_back({"re-materialisation", to_text(recompute), has, {std::move(part)}});
    }
  }

  // Without replicas every stage is stage 0: above it are plans with dp, and those with cp alone.
  void add_zero() {
    for (const int zero : space_.zero) {
      Family family{"ZeRO", fmt::format("stage {}", zero), {}, {}};
      family.has = [zero](const Plan& plan) { return plan.zero == zero; };
      SweepRequest part = space_;
      part.zero = {zero};
      if (zero == 0) {
        family.parts = {part};
      } else {
        SweepRequest context = part;
        part.dp = without_one(part.dp);
        context.cp = without_one(context.cp);
        std::erase_if(context.dp, [](int dp) { return dp != 1; });
        if (!part.dp.empty()) family.parts.push_back(std::move(part));
        if (!context.dp.empty() && !context.cp.empty()) family.parts.push_back(std::move(context));
      }
      families_.push_back(std::move(family));
    }
  }

  void add_degrees(const char* choice, std::vector<int> SweepRequest::*degrees, int Plan::*its) {
    for (const int degree : space_.*degrees) {
      SweepRequest part = space_;
      part.*degrees = {degree};
      const auto has = [degree, its](const Plan& plan) { return plan.*its == degree; };
      // etp's
      const std::string name = degree == 0 ? "tp" : std::to_string(degree);
      families_.push_back({choice, name, has, {std::move(part)}});
    }
  }

  SweepRequest space_;
  std::vector<Family> families_;
};

std::string why_none(const SweepResult& found, const std::optional<Bytes>& limit) {
  if (found.smallest_misfit && limit) {
    const Bytes needed = found.smallest_misfit->forecast.peak_memory();
    return fmt::format("does not fit: {} needs {} of {}, {} more than there is",
                       summary(found.smallest_misfit->plan), format_bytes(needed),
                       format_bytes(*limit), format_bytes(needed - *limit));
  }
  // Memory last, as searches count it: what gets so far could be, but for it.
  if (!found.left_out.empty()) {
    const LeftOut& last = found.left_out.back();
    const std::string of =
        limit && last.reason == "memory" ? " of " + format_bytes(*limit) : std::string();
    return fmt::format("{} by {}, as {}{}", last.count, last.reason, last.nearest, of);
  }
  return found.refused.empty() ? "no plan of the search has it" : found.refused.front();
}

// By a search of each part.
void search(const Family& family, const Costs& costs, const Cluster& cluster, Rejected& rejected) {
  for (const SweepRequest& part : family.parts) {
    SweepResult found = sweep(part, costs, cluster);
    if (found.plans.empty()) {
      if (rejected.reason.empty()) rejected.reason = why_none(found, part.memory_limit);
      continue;
    }
    Ranked& first = found.plans.front();
    if (rejected.best && !goes_before(first.forecast, rejected.best->forecast)) continue;
    rejected.best = std::move(first);
    rejected.gap = found.gap;
  }
  if (rejected.best) {
    rejected.reason.clear();
  } else if (rejected.reason.empty()) {
    rejected.reason = "no plan of the search has replicas";
  }
}

}  // namespace

std::vector<Rejected> rejected(const SweepRequest& request, const SweepResult& result,
                               const Costs& costs, const Cluster& cluster) {
  const Ranked& winner = result.plans.front();
  std::vector<Rejected> all;
  for (const Family& family : Families(request).all()) {
    if (family.has(winner.plan)) continue;
    Rejected& one = all.emplace_back(Rejected{.choice = family.choice, .value = family.value});
    const auto listed = std::ranges::find_if(
        result.plans, [&](const Ranked& ranked) { return family.has(ranked.plan); });
    if (listed != result.plans.end()) {
      one.best = *listed;
    } else {
      search(family, costs, cluster, one);
    }
    if (!one.best) continue;
    one.ratio = one.best->forecast.step_time / winner.forecast.step_time;
    // What a search left unseen is no faster than its best over 1 + gap, a listed plan's as well.
    if (listed != result.plans.end() && result.gap > 0) one.gap = one.ratio * (1 + result.gap) - 1;
  }
  return all;
}

std::vector<Ranked> pareto_front(std::vector<Ranked> plans, const std::vector<Rejected>& others) {
  for (const Rejected& other : others) {
    if (other.best) plans.push_back(*other.best);
  }
  rank(plans);
  std::erase_if(plans, [](const Ranked& ranked) { return !ranked.pareto; });
  // A ranking has what surely fits first.
  std::ranges::stable_sort(plans, {},
                           [](const Ranked& ranked) { return ranked.forecast.step_time; });
  return plans;
}

}  // namespace weir
