// What people read of `weir sweep`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/sweep.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "plan/job/summary.hpp"
#include "plan/words/figures.hpp"
#include "sim/explain/place_of_baseline.hpp"
#include "sim/forecast/training_cost.hpp"
#include "tools/app/sweep/sweep_layouts.hpp"
#include "tools/app/sweep/verdict.hpp"
#include "tools/report/breakdown.hpp"
#include "tools/reproduce/known_software.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/print/changes_text.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {
namespace {

// Every candidate has a bound or a step of its own; and how good the best is known to be.
void print_effort(Printout& out, const SweepResult& result) {
  const SearchEffort& effort = *result.effort;
  const auto rate = [](std::int64_t count, double core_seconds) {
    return static_cast<double>(count) / std::max(core_seconds, 1e-9);
  };
  // A small search has bounds of none, and times none.
  if (effort.timed == 0 && effort.looked_at == effort.refined)
    return out.say("{} forecast in {} simulated steps; others were not come to\n", effort.refined,
                   effort.simulated);
  out.say(
      "{} refined in {} simulated steps, {} with bounds only, {} of them looked at; "
      "{:.0f} candidates a second and core, {:.0f} steps a second and core that simulates, {}\n",
      effort.refined, effort.simulated, result.candidates - effort.refined,
      effort.looked_at - effort.refined, rate(result.candidates, result.seconds * result.threads),
      rate(effort.timed, effort.timed_seconds),
      result.gap == 0          ? std::string("no other can be faster")
      : std::isinf(result.gap) ? std::string("others were not come to")
                               : fmt::format("another may be {:.1f}% faster", 100 * result.gap));
}

// The fastest is marked: as measured where rows were run, else as forecast.
std::optional<std::size_t> best_of(const app::SweepReply& reply) {
  std::optional<std::size_t> best;
  Seconds least{0};
  for (std::size_t i = 0; i < reply.rows.size(); ++i) {
    const app::SweepRow& row = reply.rows[i];
    const Forecast& f = reply.ranked(row).forecast;
    const Seconds step = row.measured.value_or(f.step_time);
    if (!f.may_fit() || (best && step >= least)) continue;
    best = i;
    least = step;
  }
  // A baseline alone was compared with nothing that stands here.
  return reply.rows.size() == 1 && reply.rows.front().baseline ? std::nullopt : best;
}

// Hours and money of a billion tokens, behind the other columns, whose names depend on no cluster:
// for programs always, for people where another row than that of the shortest step may cost least.
void add_costs(Table& table, const Printout& out, const app::SweepReply& reply) {
  std::vector<const Forecast*> rows;
  for (const app::SweepRow& row : reply.rows) rows.push_back(&reply.ranked(row).forecast);
  const Forecast& first = *rows.front();
  const bool told = std::ranges::any_of(rows, [&](const Forecast* f) {
    return !costs_go_with_steps(first, *f) && !cost_text(*f).empty();
  });
  if (!out.for_programs() && !told) return;
  // A sweep's rows are of one model.
  const char* const unit = first.tokens_per_s ? "1e9 tokens" : "1000 steps";
  table.columns.push_back({fmt::format("device-hours/{}", unit)});
  // Pools have one currency, though not all of them may have a price.
  const auto priced =
      std::ranges::find_if(rows, [](const Forecast* f) { return f->price_per_hour.has_value(); });
  if (priced != rows.end())
    table.columns.push_back({fmt::format("{}/{}", (*priced)->price_per_hour->currency, unit)});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [hours, price] = cost_of_unit(*rows[i]).expected;
    table.rows[i].push_back(number(hours, format_figure(hours, 4)));
    if (priced == rows.end()) continue;
    table.rows[i].push_back(price ? number(price->amount, format_amount(*price)) : "-");
  }
}

Table table_of(const Printout& out, const app::SweepReply& reply) {
  Table table{.columns = {left("plan"),
                          {"predicted"},
                          {"measured"},
                          {"bubble p"},
                          {"bubble m"},
                          {"peak memory"},
                          {"fits"},
                          {"gap"},
                          {"pareto"},
                          left("layout"),
                          left("note")},
              .rows = {},
              .best = best_of(reply)};
  for (const app::SweepRow& row : reply.rows) {
    const auto& [plan, f, gap, pareto, range] = reply.ranked(row);
    table.rows.push_back(
        {summary(plan), f.step_time, row.measured ? Cell(*row.measured) : "-",
         percent(f.metrics.bubble_fraction), row.bubble ? percent(*row.bubble) : "-",
         f.peak_memory(), fit_cell(f), percent(gap), pareto ? "yes" : "",
         row.baseline || reply.layouts.empty() ? "" : app::to_text(reply.layouts[row.place]),
         row.baseline ? "(baseline)" : ""});
  }
  if (!reply.rows.empty()) add_costs(table, out, reply);
  return table;
}

// Of all tables, whose first is told the legend.
std::vector<std::string> names_of(const app::SweepReply& reply) {
  std::vector<std::string> names;
  for (const app::SweepRow& row : reply.rows) names.push_back(summary(reply.ranked(row).plan));
  if (!reply.reasons) return names;
  for (const auto* rows : {&reply.reasons->rejected, &reply.reasons->outside}) {
    for (const Rejected& one : *rows)
      if (one.best) names.push_back(summary(one.best->plan));
  }
  for (const Ranked& one : reply.front) names.push_back(summary(one.plan));
  return names;
}

void print_rows(Printout& out, const app::SweepReply& reply) {
  const SweepResult& result = reply.result;
  const std::int64_t forecast = result.effort ? result.effort->refined : result.candidates;
  out.say("{} candidates{}, {} of {} forecast fit, {:.2f} s\n", result.candidates,
          result.listed ? "" : " (not all were listed)", result.feasible, forecast, result.seconds);
  if (result.effort) print_effort(out, result);
  for (const std::string& reason : result.refused) note("left out: " + reason);
  for (const LeftOut& left_out : result.left_out) note("left out: " + app::to_text(left_out));
  if (const std::vector<std::string> names = names_of(reply); !names.empty())
    note("plans in short: " + legend_of_summaries(names));
  out.show(table_of(out, reply));
}

void print_baseline(Printout& out, const app::SweepReply& reply) {
  const SweepResult& result = reply.result;
  const Baseline& baseline = *result.baseline;
  const Forecast& f = baseline.ranked.forecast;
  std::string place = fmt::format(
      "{} devices, {} tokens/s a device", f.devices,
      f.tokens_per_s ? fmt::format("{:.0f}", *f.tokens_per_s / f.devices) : std::string("no"));
  // A place only where it fits, on devices that the search may use.
  if (baseline.place) place = place_in_words(result);
  if (!f.may_fit())
    place = fmt::format(
        "does not fit: {} of {}{}", format_bytes(f.peak_memory()), format_bytes(*f.memory_limit),
        f.host_fits() == Fits::no
            ? fmt::format(", and {} of a node's host of {}", format_bytes(f.host->held()),
                          format_bytes(f.host->memory))
            : "");
  out.say("baseline {}: {}; its step takes {:.3f} times the best plan's, {}\n", reply.baseline_name,
          place, *baseline.ratio, devices_in_words(baseline, result.plans.front()));
  if (is_beaten_by_none(result)) out.say("none that was found is faster than the baseline\n");
  // On equal devices the ratio of steps says it all.
  if (f.devices == result.plans.front().forecast.devices) return;
  out.say("  a device of the best plan does {:.3f} times as much in a second\n",
          *baseline.device_ratio);
}

// The smallest change first; what further ones add below.
void print_first_changes(Printout& out, const app::SweepReply& reply) {
  const char* when = "first";
  for (const FirstChange& change : reply.first_changes) {
    const Forecast& f = change.forecast;
    const std::string of = f.memory_limit ? " of " + format_bytes(*f.memory_limit) : "";
    const std::string what =
        change.searched ? change.what : change.what + ", which the search kept";
    out.say("{}: {} ({}): {:.2f} times as fast, {}{}\n", change.searched ? when : "besides", what,
            to_text(change.arguments), change.ratio, format_bytes(f.peak_memory()), of);
    when = "then";
  }
}

// ", but may not fit (63 % that it does)"; of software that nobody named, by whichever it is.
std::string doubt(const Forecast& f) {
  if (f.fits() == Fits::yes) return "";
  return fmt::format(", but may not fit ({} that it does{})", fit_word(f),
                     app::is_assumed(f.stack) ? " by whichever software; --stack names yours" : "");
}

// A plan of one rank is no pipeline, which those who look for one should know.
void print_pipeline(Printout& out, const app::SweepReply& reply) {
  const Ranked& best = reply.result.plans.front();
  if (best.plan.pp > 1 || !reply.with_pipeline || !reply.with_pipeline->best) return;
  const Ranked& other = *reply.with_pipeline->best;
  out.say(
      "the best plan has no pipeline, K is 1; the best with K {} takes {:.3f} times as long{}: "
      "{}, {}\n",
      other.plan.pp, other.forecast.step_time / best.forecast.step_time, doubt(other.forecast),
      format_duration(other.forecast.step_time), summary(other.plan));
}

// How sure the first place is.
void print_best(Printout& out, const app::SweepReply& reply) {
  const Forecast& f = reply.result.plans.front().forecast;
  std::string line;
  if (f.interval) {
    line = fmt::format("{:.0f} % of such steps take {} to {}", 100 * f.interval->nominal,
                       format_duration(f.interval->low), format_duration(f.interval->high));
  }
  if (f.memory_limit && f.peak_memory_upper() > f.peak_memory()) {
    line += fmt::format("{}{} at most, of {}", line.empty() ? "" : "; ",
                        format_bytes(f.peak_memory_upper()), format_bytes(*f.memory_limit));
  }
  if (const std::string cost = cost_text(f); !cost.empty())
    line += (line.empty() ? "" : "; ") + cost;
  if (!line.empty()) out.say("the first: {}\n", line);
  if (f.training_tokens) out.say("  {}\n", training_text(f));
}

// What may not fit is no answer, but it may be worth a try.
void print_faster(Printout& out, const app::SweepReply& reply) {
  if (!reply.result.faster_if_it_fits) return;
  const Ranked& faster = *reply.result.faster_if_it_fits;
  const Forecast& best = reply.result.plans.front().forecast;
  out.say("{:.2f} times as fast{}: {}, {}\n", best.step_time / faster.forecast.step_time,
          doubt(faster.forecast), format_duration(faster.forecast.step_time), summary(faster.plan));
}

void print_reasons(Printout& out, const app::SweepReply& reply) {
  const app::SweepReasons& reasons = *reply.reasons;
  const std::string stack = whose_abilities(reply.cluster.stack.name);
  print_critical_path(out, reasons.critical_path, reasons.step);
  print_what_if(out, "what one change would bring", reasons.what_if, stack);
  print_rejected(out, reasons.rejected);
  print_outside(out, reasons.outside, stack);
  if (reasons.towards)
    print_what_if(out, "what to change in the baseline", *reasons.towards, stack);
  print_front(out, reply.front);
}

}  // namespace

void print(Printout& out, const app::SweepRequest& request, const app::SweepReply& reply) {
  // One process speaks for all.
  if (!reply.leads) return;
  if (const auto remark = app::remark_on(request.stack, reply.cluster.stack.name)) {
    // A stack that limits the search is a choice that the user may not have made.
    const bool limited = reply.software != StackAbilities{};
    note(limited ? fmt::format("{}; the search keeps to what {} runs, --any-schedule opens more",
                               *remark, whose_abilities(reply.cluster.stack.name))
                 : *remark);
  }
  for (const std::string& remark : reply.remarks) note(remark);
  print_first_changes(out, reply);
  print_rows(out, reply);
  print_best(out, reply);
  print_faster(out, reply);
  print_pipeline(out, reply);
  if (reply.result.baseline) print_baseline(out, reply);
  if (reply.reasons) print_reasons(out, reply);
  if (!reply.not_looked_at.empty()) {
    out.say("not looked at, {}: {}\n",
            reply.stopped_by != 0 ? "it was stopped" : "the budget was over",
            fmt::join(reply.not_looked_at, "; "));
  }
  if (reply.costs.basis == Basis::builtin) out.say("{}\n", trust(reply));
  if (request.report) out.say("{}\n", request.report->string());
  if (reply.picture) out.say("{}\n", reply.picture->string());
  if (request.pareto) out.say("{}\n", request.pareto->string());
}

}  // namespace weir
