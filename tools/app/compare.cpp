// Two traces of one plan, or two plans, held against each other.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/compare.hpp"

#include <fmt/format.h>

#include "plan/job/plan_json.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/picture.hpp"
#include "tools/app/traced_plan.hpp"
#include "traces/perfetto.hpp"

namespace weir::app {
namespace {

bool is_plan(const TraceSource& source) {
  const auto* file = std::get_if<std::filesystem::path>(&source);
  if (file == nullptr) return std::holds_alternative<PlacedPlan>(source);
  const Json json = parse_json(read_text_file(*file), file->string());
  return json.is_object() && json.contains("schema") && json["schema"] == "weir.plan/1";
}

// What messages call it.
std::filesystem::path file_of(const TraceSource& source, const char* otherwise) {
  const auto* file = std::get_if<std::filesystem::path>(&source);
  return file == nullptr ? otherwise : *file;
}

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json idle_json(const RankMetrics& rank) {
  Json json;
  for (const IdleCause& cause : kIdleCauses)
    json[cause.name] = to_seconds(rank.idle.*cause.time).count();
  return json;
}

Json comparison_json(const Comparison& c) {
  Json json{{"schema", "weir.comparison/1"},    {"predicted_s", c.predicted.count()},
            {"measured_s", c.measured.count()}, {"error", number_or_null(c.error)},
            {"kinds", Json::array()},           {"ranks", Json::array()},
            {"waterfall", Json::array()}};
  for (const KindError& k : c.kinds) {
    json["kinds"].push_back({{"kind", to_string(k.kind)},
                             {"rank", k.rank.value},
                             {"actions", k.actions},
                             {"predicted_s", k.predicted.count()},
                             {"measured_s", k.measured.count()},
                             {"median_abs_error", number_or_null(k.median_abs_error)}});
  }
  for (std::size_t r = 0; r < c.measured_metrics.ranks.size(); ++r) {
    const RankMetrics &predicted = c.predicted_metrics.ranks[r],
                      &measured = c.measured_metrics.ranks[r];
    json["ranks"].push_back({{"rank", r},
                             {"predicted_busy_s", to_seconds(predicted.busy).count()},
                             {"measured_busy_s", to_seconds(measured.busy).count()},
                             {"predicted_idle_s", idle_json(predicted)},
                             {"measured_idle_s", idle_json(measured)}});
  }
  for (const WaterfallPart& p : c.waterfall)
    json["waterfall"].push_back({{"cause", p.cause}, {"difference_s", p.difference.count()}});
  return json;
}

void save(const CompareRequest& r, const Trace& predicted, const Trace& measured,
          const Comparison& c, const Session& session) {
  const std::array rows{TimelineRow{&predicted, 0, "predicted"},
                        TimelineRow{&measured, c.typical_step, "measured"}};
  const auto picture = [&](const std::filesystem::path& file) {
    save_picture(draw_timeline(rows, {}), timeline_csv(rows), file, session);
  };
  const auto perfetto = [&](const std::filesystem::path& file) {
    const std::array<const Trace*, 2> both{&predicted, &measured};
    write_file_atomically(session.output(file), to_perfetto(both));
  };
  if (r.picture) picture(*r.picture);
  if (r.perfetto) perfetto(*r.perfetto);
  if (!r.output) return;
  write_file_atomically(session.output(*r.output / "comparison.json"),
                        comparison_json(c).dump(2) + "\n");
  picture(*r.output / "both.svg");
  perfetto(*r.output / "both.pftrace");
}

CompareResult compare_traces(const CompareRequest& r, const Session& session) {
  const PlannedTrace predicted = load_planned_trace(r.first, session),
                     measured = load_planned_trace(r.second, session);
  const auto first = file_of(r.first, "compare: predicted");
  const auto second = file_of(r.second, "compare: measured");
  require_comparable(predicted.trace, first);
  require_comparable(measured.trace, second);
  if (predicted.trace.steps.size() != 1)
    throw UsageError("compare: the first trace is the forecast, of one step");
  const ResolvedPlan& plan = predicted.plan->loaded;
  if (!same_plan(plan, measured.plan->loaded))
    throw InputError(second.string(), "weir.info.plan",
                     "is another plan than " + first.string() + "'s");
  CompareResult result{.traces = weir::compare(plan.program, predicted.trace, measured.trace)};
  save(r, predicted.trace, measured.trace, *result.traces, session);
  return result;
}

ResolvedPlan plan_of(const TraceSource& source, const Session& session) {
  if (const auto* plan = std::get_if<PlacedPlan>(&source)) return plan->loaded;
  const auto& file = std::get<std::filesystem::path>(source);
  ResolvedPlan plan = load_plan(file);
  note_remarks(plan, file, session);
  return plan;
}

// What each is forecast to cost.
CompareResult compare_plans(const CompareRequest& r, const Session& session) {
  CompareResult result{.plans = {plan_of(r.first, session), plan_of(r.second, session)}};
  const Cluster cluster = machine({r.cluster, r.stack, r.costs});
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    const ResolvedPlan& p = result.plans[i];
    result.forecasts[i] = forecast(p, load(r.costs, p.model, p.plan, cluster), cluster).forecast;
  }
  return result;
}

Json plan_comparison_json(const CompareResult& result) {
  const auto& [a, b] = result.forecasts;
  Json json{{"schema", "weir.plan_comparison/1"},
            {"differences", Json::array()},
            {"step_time_s", {a.step_time.count(), b.step_time.count()}},
            {"peak_memory_bytes", {a.peak_memory().count(), b.peak_memory().count()}},
            {"bubble_fraction", {a.metrics.bubble_fraction, b.metrics.bubble_fraction}}};
  // Key by key as the two files would have it.
  const Json before = plan_json(result.plans[0].plan);
  const Json after = plan_json(result.plans[1].plan);
  for (const auto& [key, value] : before.items()) {
    const Json other = after.value(key, Json());
    if (value != other)
      json["differences"].push_back({{"key", key}, {"first", value}, {"second", other}});
  }
  for (const auto& [key, value] : after.items()) {
    if (!before.contains(key))
      json["differences"].push_back({{"key", key}, {"first", nullptr}, {"second", value}});
  }
  return json;
}

}  // namespace

Fields fields(CompareRequest& r) {
  return {{"first", &r.first, "Predicted trace, or a plan", {.required = true}},
          {"second", &r.second, "Measured trace, or a plan", {.required = true}},
          {"--costs", &r.costs, "Costs to forecast plans by (default: built in)"},
          {"--cluster", &r.cluster, "Cluster file or name, of plans (default: this machine)"},
          stack_field(r.stack),
          {"--svg,--pdf",
           &r.picture,
           "Both timelines as a picture (.svg or .pdf), its data beside it as NAME.data.csv",
           {.writes = Writes::file}},
          {"--perfetto", &r.perfetto, "Both timelines in one .pftrace", {.writes = Writes::file}},
          {"-o,--output",
           &r.output,
           "Folder for comparison.json, both timelines and both traces",
           {.writes = Writes::folder}}};
}

CompareResult compare(const CompareRequest& r, const Session& session) {
  const bool plans = is_plan(r.first);
  if (plans != is_plan(r.second)) throw UsageError("compare takes two traces or two plans");
  return plans ? compare_plans(r, session) : compare_traces(r, session);
}

Json to_json(const CompareResult& result) {
  return result.traces ? comparison_json(*result.traces) : plan_comparison_json(result);
}

}  // namespace weir::app
