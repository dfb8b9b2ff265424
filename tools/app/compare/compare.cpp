// Two traces of one plan, two plans, or a plan and its job's log or timeline, held against each
// other.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/compare/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "costmodel/fit/builtin_interval.hpp"
#include "plan/job/assumed_stack.hpp"
#include "plan/job/layout_words.hpp"
#include "plan/text/schema.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/explain/plan_changes.hpp"
#include "tools/app/compare/measured_figure.hpp"
#include "tools/app/jobs/import.hpp"
#include "tools/app/machine/unnamed_software.hpp"
#include "tools/app/shared/picture.hpp"
#include "tools/app/shared/traced_plan.hpp"
#include "traces/perfetto.hpp"

namespace weir::app {
namespace {

bool is_plan(const TraceSource& source) {
  const auto* file = std::get_if<std::filesystem::path>(&source);
  if (file == nullptr) return std::holds_alternative<PlacedPlan>(source);
  if (is_timeline(*file)) return false;
  return has_schema(parse_json(read_text_file(*file), file->string()), "weir.plan/1");
}

// What messages call it.
std::filesystem::path file_of(const TraceSource& source, const char* otherwise) {
  const auto* file = std::get_if<std::filesystem::path>(&source);
  return file == nullptr ? otherwise : *file;
}

Json idle_json(const RankMetrics& rank) {
  Json json;
  for (const IdleCause& cause : kIdleCauses)
    json[cause.name] = to_seconds(rank.idle.*cause.time).count();
  return json;
}

Json comparison_json(const Comparison& c) {
  Json json{{"schema", "weir.comparison/1"},    {"predicted_s", c.predicted.count()},
            {"measured_s", c.measured.count()}, {"error", or_null(c.error)},
            {"kinds", Json::array()},           {"ranks", Json::array()},
            {"waterfall", Json::array()}};
  for (const KindError& k : c.kinds) {
    json["kinds"].push_back({{"kind", to_string(k.kind)},
                             {"rank", k.rank.value},
                             {"actions", k.actions},
                             {"predicted_s", k.predicted.count()},
                             {"measured_s", k.measured.count()},
                             {"median_abs_error", or_null(k.median_abs_error)}});
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

constexpr std::initializer_list<const char*> kOfPlans{"costs", "cluster", "stack", "gpus"};

// What is saved of two traces: `step` is the measured one drawn, `text` comparison.json's.
struct Comparable {
  const Trace &predicted, &measured;
  std::int32_t step;
  std::string text;
};

// Of plans, and of a plan and a log: there are no timelines to draw.
void save_figures(const CompareRequest& r, const CompareResult& result, const Session& session) {
  if (!r.output) return;
  write_file_atomically(session.output(*r.output / "comparison.json"),
                        to_json(result).dump(2) + "\n");
}

void save(const CompareRequest& r, const Comparable& c, const Session& session) {
  const std::vector<TimelinePanel> panels{
      {"", {{&c.predicted, 0, "predicted"}, {&c.measured, c.step, "measured"}}}};
  const auto perfetto = [&](const std::filesystem::path& file) {
    const std::array<const Trace*, 2> both{&c.predicted, &c.measured};
    write_file_atomically(session.output(file), to_perfetto(both));
  };
  save_timeline(r.picture, panels, session);
  if (r.perfetto) perfetto(*r.perfetto);
  if (!r.output) return;
  write_file_atomically(session.output(*r.output / "comparison.json"), c.text);
  // Pictures that were asked for by name stand beside the folder's own.
  PictureOptions both = r.picture;
  both.file = *r.output / "both.svg";
  save_timeline(both, panels, session);
  perfetto(*r.output / "both.pftrace");
}

CompareResult compare_traces(const CompareRequest& r, const Session& session) {
  const PlannedTrace predicted = load_planned_trace(r.first, session),
                     measured = load_planned_trace(r.second, session);
  const auto first = file_of(r.first, "compare: predicted");
  const auto second = file_of(r.second, "compare: measured");
  require_comparable(predicted.trace, first);
  require_comparable(measured.trace, second);
  if (predicted.trace.origin == TraceOrigin::measured &&
      measured.trace.origin == TraceOrigin::predicted)
    throw UsageError(
        "compare: the first trace is measured, the second predicted: expected the "
        "forecast first");
  // A forecast of several steps would leave open which of them is meant.
  if (predicted.trace.steps.size() != 1)
    throw UsageError("compare: the first trace is the forecast, of one step");
  const ResolvedPlan& plan = predicted.plan->loaded;
  // Actions are joined by number: two plans' numbers mean different actions.
  if (!same_plan(plan, measured.plan->loaded))
    throw InputError(second.string(), "weir.info.plan",
                     "is another plan than " + first.string() + "'s");
  CompareResult result{.traces = weir::compare(plan.program, predicted.trace, measured.trace)};
  save(r,
       {predicted.trace, measured.trace, result.traces->typical_step,
        comparison_json(*result.traces).dump(2) + "\n"},
       session);
  return result;
}

ResolvedPlan plan_of(const TraceSource& source, const Session& session) {
  if (const auto* plan = std::get_if<PlacedPlan>(&source)) return plan->loaded;
  return load(PlanSource(std::get<std::filesystem::path>(source)), session).loaded;
}

std::optional<StepRatio> ratio_of(const CompareResult& result, const Cluster& cluster) {
  const auto& [a, b] = result.forecasts;
  if (!stands_on_builtin(a.basis) || !cluster.device.kernels) return std::nullopt;
  const Plan &first = result.plans[0].plan, &second = result.plans[1].plan;
  const PlanDistance apart =
      distance(layout_words(first, first.model_sha256), layout_words(second, second.model_sha256));
  if (apart == PlanDistance::none || apart == PlanDistance::other_job) return std::nullopt;
  const auto interval =
      interval_beside(apart, cluster.name, cluster.stack.name,
                      is_assumed(cluster.stack) ? SoftwareKnown::by_default : SoftwareKnown::named);
  if (!interval) return std::nullopt;
  const double ratio = b.step_time / a.step_time, factor = std::exp(interval->half_width);
  return StepRatio{ratio, ratio / factor, ratio * factor, interval->nominal};
}

// By the first plan's job, where no stack is named.
Cluster machine_for(const CompareRequest& r, const Plan& plan, const Session& session) {
  return machine(
      {.cluster = r.cluster, .stack = r.stack, .costs = r.costs, .job_stack = stack_of(plan.job)},
      r.gpus, session);
}

// What each is forecast to cost.
CompareResult compare_plans(const CompareRequest& r, const Session& session) {
  CompareResult result{.plans = {plan_of(r.first, session), plan_of(r.second, session)}};
  const Cluster cluster = machine_for(r, result.plans[0].plan, session);
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    const ResolvedPlan& p = result.plans[i];
    result.forecasts[i] = forecast(p, load(r.costs, p.model, p.plan, cluster), cluster).forecast;
    widen_for_unnamed(result.forecasts[i], p, cluster);
  }
  result.ratio = ratio_of(result, cluster);
  return result;
}

bool is_timeline_folder(const TraceSource& source) {
  const auto* file = std::get_if<std::filesystem::path>(&source);
  return file != nullptr && is_timeline(*file);
}

// By the plan's forecast, or by an iteration of a timeline.
CompareResult compare_with_folder(const CompareRequest& r, const Session& session) {
  const auto& folder = std::get<std::filesystem::path>(r.second);
  CompareResult result;
  if (is_timeline_folder(r.first)) {
    session.refuse(kOfPlans, "forecasts plans: these are timelines");
    const auto& first = std::get<std::filesystem::path>(r.first);
    result.timeline = compare_timelines(first, folder, r.priced_by);
  } else {
    if (r.priced_by) throw UsageError("compare: --priced-by goes with two timelines");
    result.plans[0] = plan_of(r.first, session);
    const ResolvedPlan& plan = result.plans[0];
    const Cluster cluster = machine_for(r, plan.plan, session);
    ForecastResult forecast =
        weir::forecast(plan, load(r.costs, plan.model, plan.plan, cluster), cluster);
    result.timeline = compare_with_timeline(plan, forecast, folder);
    result.forecasts[0] = std::move(forecast.forecast);
  }
  const TimelineComparison& c = *result.timeline;
  save(r, {c.predicted, c.measured, 0, to_json(c).dump(2) + "\n"}, session);
  return result;
}

bool is_log(const TraceSource& source) {
  const auto* file = std::get_if<std::filesystem::path>(&source);
  if (file == nullptr) return false;
  const std::string text = read_text_file(*file);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  // A Python dictionary, as some tools print it, begins like JSON.
  const bool json = first != text.npos && (text[first] == '{' || text[first] == '[') &&
                    text.compare(first, 2, "{'") != 0;
  return !Json::accept(text) && (!json || is_job_log(text));
}

// The forecast of the plan, and what its job printed of its steps.
CompareResult compare_log(const CompareRequest& r, const Session& session) {
  const auto& file = std::get<std::filesystem::path>(r.second);
  CompareResult result;
  result.plans[0] = plan_of(r.first, session);
  const ResolvedPlan& plan = result.plans[0];
  const std::string plan_file = file_of(r.first, "compare: plan").string();
  const JobLogSummary log = summary(read_job_log(read_text_file(file), file.string()));
  require_same_job(log, plan, plan_file);
  const Cluster cluster = machine_for(r, plan.plan, session);
  result.forecasts[0] =
      forecast(plan, load(r.costs, plan.model, plan.plan, cluster), cluster).forecast;
  widen_for_unnamed(result.forecasts[0], plan, cluster);
  const auto time_of = [&](double Spread::*part) {
    MeasuredFigure figure = figure_of(log, file.string());
    const auto& spread = log.step_time_s    ? log.step_time_s
                         : log.tokens_per_s ? log.tokens_per_s
                                            : log.samples_per_s;
    figure.value = (*spread).*part;
    const auto time = step_time_of(figure, result.forecasts[0], plan.plan.devices());
    if (!time)
      throw InputError(plan_file, "", "has no such rate as the log: a model of tokens has");
    return *time;
  };
  // The upper quartile of a rate is the lower one of a time.
  const Seconds a = time_of(&Spread::lower), b = time_of(&Spread::upper);
  result.log = LogComparison{log, time_of(&Spread::median), std::min(a, b), std::max(a, b)};
  return result;
}

Json log_comparison_json(const CompareResult& result) {
  const LogComparison& c = *result.log;
  const Forecast& f = result.forecasts[0];
  Json json{{"schema", "weir.log_comparison/1"},
            {"tool", c.log.tool},
            {"lines", c.log.lines},
            {"left_out", c.log.left_out},
            {"predicted_s", f.step_time.count()},
            {"measured_s", c.measured.count()},
            {"measured_quartiles_s", {c.lower.count(), c.upper.count()}},
            {"error", f.step_time / c.measured - 1}};
  const auto& memory = c.log.memory;
  const MemoryCount count = memory ? memory->count : MemoryCount::device;
  json["memory_count"] = to_string(count);
  json["predicted_peak_memory_bytes"] = f.peak_memory(count).count();
  json["measured_peak_memory_bytes"] = memory ? Json(memory->bytes.count()) : Json(nullptr);
  return json;
}

Json plan_comparison_json(const CompareResult& result) {
  const auto& [a, b] = result.forecasts;
  Json json{{"schema", "weir.plan_comparison/1"},
            {"differences", Json::array()},
            {"step_time_s", {a.step_time.count(), b.step_time.count()}},
            {"global_batch_size",
             {result.plans[0].plan.global_batch_size(), result.plans[1].plan.global_batch_size()}},
            {"samples_per_s", {or_null(a.samples_per_s), or_null(b.samples_per_s)}},
            {"peak_memory_bytes", {a.peak_memory().count(), b.peak_memory().count()}},
            {"bubble_fraction", {a.metrics.bubble_fraction, b.metrics.bubble_fraction}},
            {"step_time_ratio", nullptr}};
  if (const auto& r = result.ratio)
    json["step_time_ratio"] = {
        {"ratio", r->ratio}, {"interval", {r->low, r->high}}, {"nominal", r->nominal}};
  for (const PlanChange& change : plan_changes(result.plans[0].plan, result.plans[1].plan)) {
    json["differences"].push_back(
        {{"key", change.key}, {"first", change.before}, {"second", change.after}});
  }
  return json;
}

}  // namespace

Fields fields(CompareRequest& r) {
  Fields all{
      {"first",
       &r.first,
       "Predicted trace, a plan, or a folder of timelines (config.json, pp_rank_N.json)",
       {.required = true}},
      {"second",
       &r.second,
       "Measured trace, a plan, or the log or the folder of timelines of the first plan's job",
       {.required = true}},
      {"--priced-by",
       &r.priced_by,
       "The first folder's iteration whose medians forecast (default: the last but one)",
       {.range = Range{0, 1e9}}},
      {"--costs", &r.costs, "Costs to forecast plans by (default: built in)"},
      {"--cluster", &r.cluster, "Cluster file or name, of plans (default: this machine)"},
      stack_field(r.stack),
      gpus_field(r.gpus)};
  append(all, fields(r.picture, "both timelines"));
  append(all,
         {{"--perfetto", &r.perfetto, "Both timelines in one .pftrace", {.writes = Writes::file}},
          {"-o,--output",
           &r.output,
           "Folder for comparison.json and, of traces, both timelines and both traces",
           {.writes = Writes::folder}}});
  return all;
}

CompareResult compare(const CompareRequest& r, const Session& session) {
  // Into the folder go pictures of both timelines, too.
  if (!r.output) refuse_without_picture(r.picture, session);
  // By what the second is: that decides what the first may be.
  if (is_timeline_folder(r.second)) {
    if (is_timeline_folder(r.first) || is_plan(r.first)) return compare_with_folder(r, session);
    throw UsageError("compare: a folder of timelines goes with a plan or another such folder");
  }
  if (r.priced_by) throw UsageError("compare: --priced-by goes with two timelines");
  const bool plans = is_plan(r.first);
  const bool log = plans && is_log(r.second);
  if (!log && plans != is_plan(r.second))
    throw UsageError(
        "compare takes two traces, two plans, a plan and the log of its job, or a plan or a folder "
        "of timelines and a folder of timelines (a profile of PyTorch goes to weir calibrate "
        "--plan, "
        "whose --save-trace makes it a trace)");
  if (!plans) {
    session.refuse(kOfPlans, "forecasts plans: these are traces");
    return compare_traces(r, session);
  }
  session.refuse({"svg", "perfetto", "width", "palette"}, "draws timelines: here are none");
  CompareResult result = log ? compare_log(r, session) : compare_plans(r, session);
  save_figures(r, result, session);
  return result;
}

Json to_json(const CompareResult& result) {
  if (result.log) return log_comparison_json(result);
  if (result.timeline) return to_json(*result.timeline);
  return result.traces ? comparison_json(*result.traces) : plan_comparison_json(result);
}

}  // namespace weir::app
