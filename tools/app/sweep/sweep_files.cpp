// Draws and writes what a sweep found.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/sweep_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "plan/text/text_file.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/app/shared/explained_step.hpp"
#include "tools/app/shared/picture.hpp"
#include "tools/app/shared/provenance.hpp"
#include "tools/app/sweep/edits.hpp"
#include "tools/report/chart.hpp"
#include "tools/report/pages/search.hpp"

namespace weir::app {

void draw(const SweepReply& reply, const std::filesystem::path& file, const Session& session) {
  int ranks = 0;
  // One K a picture: the largest that any listed plan has.
  for (const SweepRow& row : reply.rows) ranks = std::max(ranks, reply.ranked(row).plan.pp);
  std::map<int, BubblePoint> points;
  for (const SweepRow& row : reply.rows) {
    const auto& [plan, forecast, gap, pareto, range] = reply.ranked(row);
    if (plan.pp != ranks || points.contains(plan.microbatches)) continue;  // best first
    points[plan.microbatches] = {plan.microbatches, forecast.metrics.bubble_fraction, row.bubble,
                                 static_cast<double>(forecast.peak_memory().count()) / (1 << 30)};
  }
  std::vector<BubblePoint> ordered;
  for (const auto& [m, point] : points) ordered.push_back(point);
  const auto [bubble, memory] = bubble_charts(ordered, ranks);
  save_picture(beside(draw_chart(bubble), draw_chart(memory)),
               chart_csv(bubble) + chart_csv(memory), file, session);
}

namespace {

// A flag has no value: it is there, or it is not.
std::string shown(const std::optional<std::string>& value, bool of_job) {
  if (!value) return "";
  return of_job && value->empty() ? "set" : *value;
}

std::vector<ReportChange> report_changes(const Edits& edits) {
  std::vector<ReportChange> rows;
  for (const Edit& edit : edits.all) {
    rows.push_back({(edits.of_job ? "--" : "") + edit.name, shown(edit.before, edits.of_job),
                    shown(edit.after, edits.of_job)});
  }
  return rows;
}

// The result with its plans' names.
SearchReport named(const SweepReply& reply) {
  SearchReport report{.result = &reply.result, .front = &reply.front};
  for (const Ranked& ranked : reply.result.plans) report.names.push_back(summary(ranked.plan));
  if (reply.result.baseline) report.baseline_name = summary(reply.result.baseline->ranked.plan);
  return report;
}

// How long a plan's changes are forecast for a report: within what the budget has left for it,
// shared by the plans that are to come.
Seconds allowance(const SweepReply& reply, int plans) {
  const auto left = reply.time.left(TimeBound::Part::report);
  return left ? *left / plans : kExplainedUnasked;
}

// A plan's step, drawn and explained: by what `--explain` found, where it did.
void add_step(SearchReport& report, Trace& trace, const std::string& name, const Ranked& ranked,
              const SweepReply& reply, const SweepRequest& r, const Session& session) {
  const bool best = report.explained.empty();
  // Each has its own time, from before its step is forecast: the first takes none of the second's.
  const auto in_time = within(allowance(reply, best && !report.changes.empty() ? 2 : 1));
  const auto over = [&]() -> std::string {
    if (r.stopping && r.stopping() != 0) return "it was stopped";
    return in_time();
  };
  const ResolvedPlan plan = resolve(ranked.plan, ".");
  ForecastResult result = forecast(plan, reply.costs, reply.cluster);
  report.explained.push_back(
      explain_step({.name = name,
                    .plan = plan,
                    .forecast = ranked.forecast,
                    .result = result,
                    .costs = reply.costs,
                    .source = r.costs,
                    .cluster = reply.cluster,
                    .software = reply.software,
                    .over = over,
                    .progress = session.part("explain"),
                    .what_if = best && reply.reasons ? &reply.reasons->what_if : nullptr}));
  trace = std::move(result.trace);
}

// What was run, and what came of it.
void add_measured(SearchReport& report, const SweepReply& reply, const SweepRequest& r) {
  std::size_t run = 0;
  report.measured.resize(reply.result.plans.size());
  for (const SweepRow& row : reply.rows) {
    if (!row.measured) continue;
    ++run;
    (row.baseline ? report.baseline_measured : report.measured[row.place]) = row.measured;
  }
  if (run == 0) return;
  report.run =
      fmt::format("{} plan{} run by the backend {}, {} step{} each", run,
                  run == 1 ? " was" : "s were", r.backend, r.steps, r.steps == 1 ? "" : "s");
}

}  // namespace

void write_report(SweepReply& reply, const SweepRequest& r, const std::string& trust,
                  const Session& session) {
  const weir::SweepResult& result = reply.result;
  SearchReport report = named(reply);
  report.model = r.common.model.filename().string();
  report.machine = reply.cluster.name;
  report.costs_origin = reply.costs.origin;
  report.trust = trust;
  report.provenance = provenance(session, r.seed);
  const ResolvedPlan best = resolve(result.plans.front().plan, ".");
  if (result.baseline) {
    const Edits edits = edits_between(result.baseline->ranked.plan, best);
    report.changes = report_changes(edits);
    report.not_carried = not_carried_lines(edits);
  }
  const char* when = "First";
  for (const FirstChange& change : reply.first_changes) {
    report.first_changes.push_back(fmt::format("{}: {}: {:.2f} times as fast, {}.", when,
                                               change.what, change.ratio,
                                               format_bytes(change.forecast.peak_memory())));
    when = "Then";
  }
  add_step(report, report.best, "best plan", result.plans.front(), reply, r, session);
  if (!report.changes.empty()) {
    add_step(report, report.present.emplace(), "present plan", result.baseline->ranked, reply, r,
             session);
  }
  add_measured(report, reply, r);
  write_file_atomically(session.output(*r.report), search_html(report));
  // A page is whole all the same, and says what it has not.
  if (reply.stopped_by != 0 || !r.stopping) return;
  reply.stopped_by = r.stopping();
  if (reply.stopped_by != 0)
    session.fault()("stopped: not every change was forecast for the report");
}

SweepReply placed_in(SweepReply reply, const std::filesystem::path& folder) {
  const auto move = [&](Plan& plan) { plan = rebased(std::move(plan), ".", folder); };
  // Wherever a plan is written its paths must hold.
  for (Ranked& ranked : reply.result.plans) move(ranked.plan);
  for (Ranked& ranked : reply.front) move(ranked.plan);
  if (reply.result.baseline) move(reply.result.baseline->ranked.plan);
  if (!reply.reasons) return reply;
  for (WhatIf& row : reply.reasons->what_if) move(row.change.plan);
  if (reply.reasons->towards) {
    for (WhatIf& row : *reply.reasons->towards) move(row.change.plan);
  }
  for (Rejected& one : reply.reasons->rejected) {
    if (one.best) move(one.best->plan);
  }
  return reply;
}

void write_plans(const SweepReply& reply, const std::filesystem::path& folder,
                 const Session& session) {
  std::filesystem::create_directories(folder);
  for (std::size_t i = 0; i < reply.result.plans.size(); ++i) {
    const auto file = folder / fmt::format("plan-{}.json", i + 1);
    save_plan(rebased(reply.result.plans[i].plan, ".", folder), session.output(file));
  }
}

void draw_front(const SweepReply& reply, const std::filesystem::path& file,
                const Session& session) {
  const Chart chart = front_chart(reply.result.plans, reply.front, reply.result.baseline);
  save_picture(draw_chart(chart), chart_csv(chart), file, session);
}

}  // namespace weir::app
