// Says what leaves plans out, and what would change it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/verdict.hpp"

#include <fmt/format.h>

#include <cmath>

#include "plan/job/summary.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/exit_code.hpp"

namespace weir::app {

std::string to_text(const LeftOut& left_out) {
  return fmt::format("{} by {}, as {}", left_out.count, left_out.reason, left_out.nearest);
}

namespace {

// The memory that nothing fits: the devices', and the hosts' where that alone was too little.
std::string memory_of(const weir::SweepResult& result, const weir::SweepRequest& search) {
  std::string text = format_bytes(*search.memory_limit);
  for (const LeftOut& one : result.left_out) {
    if (one.reason == "host memory")
      text += fmt::format(" and the memory of a node's host, which alone leaves out {}", one.count);
  }
  return text;
}

}  // namespace

// What people should know where nothing fits: why, and what the plan in use needs.
void require_feasible(const SweepReply& reply, const weir::SweepRequest& search,
                      const Session& session) {
  const weir::SweepResult& result = reply.result;
  if (!result.plans.empty()) return;
  // Stopped first: nothing was found because nothing was looked at.
  if (result.stopped_after) throw RunFailed("stopped before a plan was found");
  // Reasons before the verdict: what was refused and left out may be what to change.
  for (const std::string& reason : result.refused) session.note("left out: " + reason);
  for (const LeftOut& left_out : result.left_out) session.note("left out: " + to_text(left_out));
  if (result.baseline) {
    const Forecast& f = result.baseline->ranked.forecast;
    session.note(fmt::format("baseline {}: {} a step, {} on its fullest device",
                             reply.baseline_name, format_duration(f.step_time),
                             format_bytes(f.peak_memory())));
  }
  // The nearest miss tells how much memory is lacking.
  if (const auto& smallest = result.smallest_misfit) {
    if (const auto host = smallest->forecast.host_too_full()) {
      throw NoFeasiblePlan(fmt::format(
          "no plan fits the {} of a node's host; the smallest ({}) keeps {} there",
          format_bytes(host->memory), summary(smallest->plan), format_bytes(host->held())));
    }
    throw NoFeasiblePlan(fmt::format("no plan fits {}; the smallest ({}) needs {}",
                                     format_bytes(*search.memory_limit),
                                     summary(result.smallest_misfit->plan),
                                     format_bytes(result.smallest_misfit->forecast.peak_memory())));
  }
  // The budget may have ended before all candidates were listed.
  const bool more =
      result.effort && (result.effort->looked_at < result.candidates || std::isinf(result.gap));
  // Bounds alone say of no plan that it does not fit.
  if (more && result.effort->refined == 0) {
    throw NoFeasiblePlan(
        fmt::format("none of {} candidates{} was forecast before the budget was over; a longer "
                    "one looks on",
                    result.candidates, result.listed ? "" : " that were listed"));
  }
  if (more && !result.listed) {
    throw NoFeasiblePlan(fmt::format(
        "none of {} candidates that were looked at fits {}, and not all were listed; a longer "
        "budget looks on",
        result.effort->looked_at, memory_of(result, search)));
  }
  if (more) {
    throw NoFeasiblePlan(
        fmt::format("none of {} candidates of {} fits {}; a longer budget looks on",
                    result.effort->looked_at, result.candidates, memory_of(result, search)));
  }
  throw NoFeasiblePlan(result.candidates > 0
                           ? fmt::format("no plan fits {}", memory_of(result, search))
                           : "no plan is possible for these options");
}

// What may fit is no answer unless that was asked for.
void require_sure_fit(const weir::SweepResult& result) {
  const auto& [plan, forecast, gap, pareto, range] = result.plans.front();
  if (forecast.fits() == Fits::yes) return;
  std::string limit = format_bytes(*forecast.memory_limit);
  if (forecast.host_fits() != Fits::yes)
    limit += fmt::format(" and {} of a node's host", format_bytes(forecast.host->memory));
  const char* const open =
      result.surer_open ? ", but not all were forecast; a longer --budget looks on" : "";
  throw NoFeasiblePlan(fmt::format(
      "no plan surely fits {}{}; the best that may ({:.0f} % that it does), {} a step, is {}: "
      "--may-fit lists such plans",
      limit, open, 100 * forecast.fits_probability(), format_duration(forecast.step_time),
      summary(plan)));
}

}  // namespace weir::app
