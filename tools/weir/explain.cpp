// What people read of `weir explain`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/compare/explain.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "sim/forecast/training_cost.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/reproduce/known_software.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/print/changes_text.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {
namespace {

// The part as a bar that starts where the one before it ended.
std::string bar(Nanoseconds from, Nanoseconds time, Nanoseconds step) {
  constexpr double kColumns = 40;
  const auto column = [&](Nanoseconds at) {
    const double place =
        kColumns * static_cast<double>(at.count()) / static_cast<double>(step.count());
    return static_cast<std::size_t>(std::clamp(std::lround(place), 0L, std::lround(kColumns)));
  };
  const std::size_t a = column(std::min(from, from + time));
  const std::size_t b = column(std::max(from, from + time));
  // What is less than a column is seen, too.
  return std::string(a, ' ') + (b > a ? std::string(b - a, '#') : "|");
}

void print_waterfall(Printout& out, const Waterfall& fall) {
  Table table{
      {left("where the step goes"), {"time"}, {"share"}, left("from where to where")}, {}, {}};
  table.columns.back().drawn = true;
  Nanoseconds from{0};
  for (const auto& [name, time] : fall.parts) {
    if (time.count() == 0) continue;
    table.rows.push_back({std::string(part_in_words(name)), to_seconds(time),
                          percent(to_seconds(time) / to_seconds(fall.step)),
                          bar(from, time, fall.step)});
    from += time;
  }
  out.show(table);
}

void print_gap(Printout& out, const app::ExplainResult& result) {
  const Gap& gap = *result.gap;
  std::string inside;
  // Not every forecast has an interval: without one nothing is said of it.
  if (gap.within_interval)
    inside = *gap.within_interval ? ", within the forecast's interval"
                                  : ", outside the forecast's interval";
  out.say("\nmeasured {}: {} a step, {:.3f} times the forecast{}\n", result.measured,
          format_duration(gap.measured), gap.measured / result.forecast.step_time, inside);
  if (const auto& other = result.mistaken) {
    out.say("in {} this plan would take {}: does the job run in {}, as the plan says?\n",
            to_string(other->dtype), format_duration(other->step_time),
            to_string(result.plan.dtype));
  }
  Table table{{left("alone, it would be"), {"times"}, {"plausible"}}, {}, {}};
  for (const SuspectedCause& cause : gap.causes) {
    table.rows.push_back(
        {std::string(part_in_words(cause.name)),
         cause.factor ? number(*cause.factor, fmt::format("{:.3f}", *cause.factor)) : "-",
         !cause.plausible   ? "-"
         : *cause.plausible ? "yes"
                            : "no"});
  }
  out.show(table);
  // The first cause is the most plausible: told is how to find out.
  if (gap.causes.empty() || !gap.causes.front().factor) return;
  const SuspectedCause& first = gap.causes.front();
  out.say("to tell: {} ({} by the forecast, {} if it is this)\n", first.measurement,
          format_duration(first.reading), format_duration(*first.reading_if));
}

}  // namespace

void print(Printout& out, const app::ExplainRequest& request, const app::ExplainResult& result) {
  if (const auto remark = app::remark_on(request.stack, result.forecast.stack)) note(*remark);
  const Forecast& f = result.forecast;
  out.say("{}: step {} ({}){}\n", summary(result.plan), format_duration(f.step_time),
          to_string(f.basis), cost_clause(f));
  if (f.training_tokens) out.say("{}\n", training_text(f));
  out.say("\n");
  print_waterfall(out, result.waterfall);
  print_critical_path(out, result.critical_path, result.waterfall.step);
  print_what_if(out, "what one change would bring", result.what_if,
                whose_abilities(result.forecast.stack));
  if (result.gap) print_gap(out, result);
  for (const std::string& warning : result.forecast.warnings) note(warning);
  if (request.plans) out.say("{}\n", request.plans->string());
}

}  // namespace weir
