// From a profile's ranking to a few plans that differ.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/evaluate/tune_plans.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/job/summary.hpp"
#include "plan/words/error.hpp"
#include "sim/explain/plan_changes.hpp"
#include "sim/search/sweep.hpp"

namespace weir::app {
namespace {

constexpr int kRanked = 100;  // in sweep.json

// Whether a step of both is the same work in the same order. What a step is worth, its rates, takes
// no time, and one rank alone receives nothing into slots.
bool same_step(Plan a, const Plan& b) {
  a.optimizer.learning_rate = b.optimizer.learning_rate;
  a.optimizer.rate = b.optimizer.rate;
  if (a.pp == 1) a.slots = b.slots;
  return step_changes(a, b).empty();
}

}  // namespace

weir::SweepRequest sweep_request(const TuneLoop& loop) {
  weir::SweepRequest request;
  request.base = loop.base;
  request.exact_slots = loop.request.plan.slots.has_value();
  request.folder = ".";
  // Every schedule that fits, with as many stages a rank as it takes; of all those plans more than
  // are run, for the choice wants them to differ (`choose`).
  request.schedules.clear();
  request.vpp.clear();
  request.keep = kRanked;
  request.pp.clear();
  // A core is a core for every K. A GPU's share is smaller the more there are, so its profile holds
  // for one K, and for the whole.
  const int layers = static_cast<int>(loop.model.layers.size());
  const int most = std::min({loop.host.devices(), loop.devices, layers});
  for (int k = 1; k <= most; ++k) {
    if (loop.backend != BackendKind::cuda || k == 1 || k == most) request.pp.push_back(k);
  }
  request.global_batch_size = loop.request.global_batch_size;
  request.recompute = {parse_recompute("none", ""), parse_recompute("full", ""),
                       parse_recompute("stage", ""), parse_recompute("except-last", "")};
  // The rest is the system's and the library's own.
  request.memory_limit = loop.request.memory_limit.empty()
                             ? Bytes(loop.host.device.memory.count() / 10 * 8)
                             : parse_memory(loop.request.memory_limit, "--memory-limit");
  return request;
}

SweepResult ranking(const TuneLoop& loop, const Costs& profile) {
  SweepResult swept = sweep(sweep_request(loop), profile, loop.host);
  if (!swept.plans.empty()) return swept;
  throw NoFeasiblePlan(
      swept.smallest_misfit
          ? fmt::format("no plan fits the memory limit; the smallest ({}) needs {}",
                        summary(swept.smallest_misfit->plan),
                        format_bytes(swept.smallest_misfit->forecast.peak_memory()))
          : "no plan is possible for these options");
}

Chosen choose(const TuneLoop& loop, const SweepResult& swept) {
  Chosen chosen;
  // The place of what is alike, or the end.
  const auto seen = [&](const Plan& a) {
    const auto at = std::ranges::find_if(chosen.plans, [&](const Plan& b) {
      return a.pp == b.pp && a.microbatches == b.microbatches && a.recompute == b.recompute &&
             (a.schedule == b.schedule || a.pp == 1);
    });
    return static_cast<std::size_t>(at - chosen.plans.begin());
  };
  for (const Ranked& ranked : swept.plans) {
    // Ranked by forecast: the first of its kind is the fastest of its kind.
    if (std::ssize(chosen.plans) == loop.request.plans) break;
    if (seen(ranked.plan) == chosen.plans.size()) chosen.plans.push_back(ranked.plan);
  }
  // What pipelining must beat: one device, all samples at once.
  Plan plain = loop.base;
  plain.micro_batch_size = loop.request.global_batch_size;
  plain.schedule = "gpipe";
  chosen.baseline = seen(plain);
  if (chosen.baseline == chosen.plans.size()) chosen.plans.push_back(plain);
  if (!loop.baseline) return chosen;
  // As it is: what is but like it may be faster. What is the same is run once, under its name.
  const Plan& present = loop.baseline->plan;
  const auto same = std::ranges::find_if(
      chosen.plans, [&](const Plan& plan) { return same_step(plan, present); });
  chosen.baseline = static_cast<std::size_t>(same - chosen.plans.begin());
  if (same == chosen.plans.end()) {
    chosen.plans.push_back(present);
  } else {
    *same = present;
  }
  return chosen;
}

}  // namespace weir::app
