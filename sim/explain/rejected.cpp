// Names the values that were not chosen, and says what a search found of each.
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

// A family, and the part of the space that holds it.
struct Value {
  Family family;
  std::function<void(SweepRequest&)> narrow;
};

class Values {
 public:
  explicit Values(const SweepRequest& request) : space_(request) {}

  std::vector<Value> all() {
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
    if (space_.layouts) add_layouts();
    return std::move(values_);
  }

 private:
  void add_schedules() {
    // On one rank all schedules do the same.
    if (std::ranges::all_of(space_.pp, [](int k) { return k == 1; })) return;
    for (const std::string& name : space_.schedules) {
      const auto has = [name](const Plan& plan) { return plan.pp > 1 && plan.schedule == name; };
      values_.push_back({{"schedule", name, has}, [name](SweepRequest& part) {
                           std::erase(part.pp, 1);
                           part.schedules = {name};
                         }});
    }
  }

  void add_recompute() {
    for (const Recompute& recompute : space_.recompute) {
      const auto has = [recompute](const Plan& plan) { return plan.recompute == recompute; };
      values_.push_back({{"re-materialisation", to_text(recompute), has},
                         [recompute](SweepRequest& part) { part.recompute = {recompute}; }});
    }
  }

  void add_zero() {
    for (const int zero : space_.zero) {
      const auto has = [zero](const Plan& plan) { return plan.zero == zero; };
      values_.push_back({{"ZeRO", fmt::format("stage {}", zero), has}, [zero](SweepRequest& part) {
                           part.zero = {zero};
                           if (zero == 0) return;
                           // A stage above 0 needs replicas.
                           auto& degrees = std::ranges::max(part.dp) > 1 ? part.dp : part.cp;
                           std::erase(degrees, 1);
                           if (degrees.empty()) part.pp.clear();
                         }});
    }
  }

  void add_degrees(const char* choice, std::vector<int> SweepRequest::*degrees, int Plan::*its) {
    for (const int degree : space_.*degrees) {
      const auto has = [degree, its](const Plan& plan) { return plan.*its == degree; };
      // An etp of 0 is tp's own degree.
      const std::string name = degree == 0 ? "tp" : std::to_string(degree);
      values_.push_back({{choice, name, has},
                         [degree, degrees](SweepRequest& part) { part.*degrees = {degree}; }});
    }
  }

  // Those of a file by their names. Of all that there are the degrees say most; what they do not
  // say is whether rows are split.
  void add_layouts() {
    for (const StageLayout& one : *space_.layouts) {
      if (one.name.empty()) continue;
      const auto has = [one](const Plan& plan) { return has_layout(plan, one); };
      values_.push_back({{"layout", one.name, has},
                         [one](SweepRequest& part) { part.layouts = std::vector{one}; }});
    }
    if (!space_.layouts->empty() && !space_.layouts->front().name.empty()) return;
    for (const bool rows : {false, true}) {
      const auto has = [rows](const Plan& plan) { return plan.sequence_parallel == rows; };
      const auto narrow = [rows](SweepRequest& part) {
        std::erase_if(*part.layouts,
                      [&](const StageLayout& one) { return one.cut.sequence_parallel != rows; });
      };
      values_.push_back({{"layout", rows ? "with rows split" : "with rows whole", has}, narrow});
    }
  }

  const SweepRequest& space_;
  std::vector<Value> values_;
};

std::string why_none(const std::vector<LeftOut>& left_out, const std::vector<std::string>& refused,
                     const std::optional<Bytes>& limit) {
  // Memory last, as searches count it: what gets so far could be, but for it.
  if (!left_out.empty()) {
    const LeftOut& last = left_out.back();
    const std::string of =
        limit && last.reason == "memory" ? " of " + format_bytes(*limit) : std::string();
    return fmt::format("{} by {}, as {}{}", last.count, last.reason, last.nearest, of);
  }
  return refused.empty() ? "no plan of the search has it" : refused.front();
}

constexpr const char* kNotComeTo = "the search ended before it came to a plan that has it";
constexpr const char* kNotLookedFor = "there was no time to look for why no plan has it";

// Of a value that no candidate has; the search that says why looks at nothing, or at little.
// `over`: when it is to end as well.
std::string why_no_candidate(const SweepRequest& request, const Value& value, const Costs& costs,
                             const Cluster& cluster, const std::function<bool()>& over) {
  // The user's search on a part of its space, with little effort: only what it says of left-out
  // plans is read.
  SweepRequest part = request;
  part.progress = {};
  part.checkpoint = {};
  part.resume.reset();
  part.party.reset();
  part.families.clear();
  part.front = false;
  // Its effort ends it, and the time for all such rows.
  part.budget.reset();
  part.stop = over;
  part.effort = 1;
  part.baseline.reset();
  value.narrow(part);
  if (part.pp.empty()) {
    return value.family.choice == "ZeRO" ? "no plan of the search has replicas"
                                         : "no plan of the search has it";
  }
  if (over()) return kNotLookedFor;
  const SweepResult found = sweep(part, costs, cluster);
  if (found.stopped_after || !found.listed) return kNotLookedFor;
  return why_none(found.left_out, found.refused, part.memory_limit);
}

}  // namespace

std::vector<Family> families_of(const SweepRequest& request) {
  std::vector<Family> families;
  for (Value& value : Values(request).all()) families.push_back(std::move(value.family));
  return families;
}

std::vector<Rejected> rejected(const SweepRequest& request, const SweepResult& result,
                               const Costs& costs, const Cluster& cluster,
                               const std::function<bool()>& over) {
  const Ranked& winner = result.plans.front();
  const std::vector<Value> values = Values(request).all();
  std::vector<Rejected> all;
  const auto ended = [&] { return (request.stop && request.stop()) || (over && over()); };
  // A search that was stopped has answered none.
  for (std::size_t i = 0; i < std::min(values.size(), result.families.size()); ++i) {
    const Family& family = values[i].family;
    if (family.has(winner.plan)) continue;
    const FamilyBest& found = result.families[i];
    Rejected& one = all.emplace_back(Rejected{.choice = family.choice, .value = family.value});
    one.best = found.best;
    one.gap = found.gap;
    if (one.best) {
      one.ratio = one.best->forecast.step_time / winner.forecast.step_time;
    } else if (found.not_come_to) {
      one.reason = kNotComeTo;
    } else {
      one.reason = found.any ? why_none(found.left_out, {}, request.memory_limit)
                             : why_no_candidate(request, values[i], costs, cluster, ended);
    }
  }
  return all;
}

}  // namespace weir
