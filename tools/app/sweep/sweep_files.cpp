// Draws and writes what a sweep found.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/sweep_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "plan/job/plan_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/picture.hpp"
#include "tools/app/shared/provenance.hpp"
#include "tools/jobs/megatron/patch.hpp"
#include "tools/report/chart.hpp"
#include "tools/report/search.hpp"

namespace weir::app {

void draw(const SweepReply& reply, const std::filesystem::path& file, const Session& session) {
  int ranks = 0;
  // One K a picture: the largest that any listed plan has.
  for (const SweepRow& row : reply.rows) ranks = std::max(ranks, reply.ranked(row).plan.pp);
  std::map<int, BubblePoint> points;
  for (const SweepRow& row : reply.rows) {
    const auto& [plan, forecast, gap, pareto] = reply.ranked(row);
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
std::string flag_text(const std::optional<std::string>& value) {
  if (!value) return "";
  return value->empty() ? "set" : *value;
}

// By the arguments of the present plan's own job, where it keeps them and its tool has words for
// the best plan; else by the keys of both plans.
std::vector<ReportChange> changes_between(const Plan& present, const Plan& best) {
  std::vector<ReportChange> changes;
  if (!present.job.lines.empty()) {
    ResolvedPlan wanted = resolve(best, ".");
    wanted.plan.job = present.job;
    try {
      if (const auto patch = patch_own_megatron_job(wanted)) {
        for (const ArgumentChange& one : patch->changes)
          changes.push_back({"--" + one.name, flag_text(one.before), flag_text(one.after)});
        return changes;
      }
    } catch (const InputError&) {  // it has no words for such a plan
    }
  }
  const nlohmann::ordered_json from = plan_json(present), to = plan_json(best);
  // What says nothing of how a step is run.
  const std::set<std::string> passed{"schema", "model", "model_sha256", "note", "job", "seed"};
  const auto text = [](const nlohmann::ordered_json& json, const std::string& key) {
    if (!json.contains(key)) return std::string();
    return json[key].is_string() ? json[key].get<std::string>() : json[key].dump();
  };
  std::vector<std::string> keys;
  for (const auto* json : {&from, &to}) {
    for (const auto& [key, value] : json->items()) {
      if (!passed.contains(key) && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  for (const std::string& key : keys) {
    if (text(from, key) != text(to, key)) changes.push_back({key, text(from, key), text(to, key)});
  }
  return changes;
}

}  // namespace

void write_report(const SweepReply& reply, const SweepRequest& r, const std::string& trust,
                  const Session& session) {
  const weir::SweepResult& result = reply.result;
  SearchReport report{.title = "weir sweep: " + r.common.model.filename().string(),
                      .machine = reply.cluster.name,
                      .costs_origin = reply.costs.origin,
                      .trust = trust,
                      .result = &result,
                      .front = &reply.front,
                      .provenance = provenance(session, r.seed)};
  for (const Ranked& ranked : result.plans) report.names.push_back(summary(ranked.plan));
  if (result.baseline) report.baseline_name = summary(result.baseline->ranked.plan);
  if (result.baseline)
    report.changes = changes_between(result.baseline->ranked.plan, result.plans.front().plan);
  const char* when = "First";
  for (const FirstChange& change : reply.first_changes) {
    report.first_changes.push_back(fmt::format("{}: {}: {:.2f} times as fast, {}.", when,
                                               change.what, change.ratio,
                                               format_bytes(change.forecast.peak_memory())));
    when = "Then";
  }
  report.best = forecast(resolve(result.plans.front().plan, "."), reply.costs, reply.cluster).trace;
  write_file_atomically(session.output(*r.report), search_html(report));
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
