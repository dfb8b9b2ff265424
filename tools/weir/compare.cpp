// `weir compare`: error per action kind, rank and cause of idle time between a prediction and a
// measurement; or what two plans differ in and what that costs.
// SPDX-License-Identifier: Apache-2.0
#include "traces/compare.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "plan/job/plan_json.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast.hpp"
#include "tools/report/timeline.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/options.hpp"
#include "tools/weir/records_json.hpp"
#include "tools/weir/traced_plan.hpp"
#include "traces/perfetto.hpp"

namespace weir {
namespace {

struct CompareOptions {
  std::filesystem::path first, second;
  std::optional<std::filesystem::path> costs, svg, perfetto, output;
};

bool is_plan(const std::filesystem::path& file) {
  const Json json = parse_json(read_text_file(file), file.string());
  return json.is_object() && json.contains("schema") && json["schema"] == "weir.plan/1";
}

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

struct Cause {
  const char* name;
  Nanoseconds IdleTime::*time;
};
constexpr Cause kCauses[] = {
    {"fill", &IdleTime::fill},           {"drain", &IdleTime::drain},
    {"imbalance", &IdleTime::imbalance}, {"communication", &IdleTime::communication},
    {"host", &IdleTime::host},           {"optimizer", &IdleTime::optimizer}};

Json idle_json(const RankMetrics& rank) {
  Json json;
  for (const Cause& cause : kCauses) json[cause.name] = to_seconds(rank.idle.*cause.time).count();
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

void print_comparison(const Comparison& c) {
  const auto percent = [](const std::optional<double>& value, const char* format) {
    return value ? fmt::format(fmt::runtime(format), *value * 100) : std::string("-");
  };
  fmt::print("predicted {}, measured {} (error {})\n\n", format_duration(c.predicted),
             format_duration(c.measured), percent(c.error, "{:+.2f} %"));
  fmt::print("{:<10} {:>4} {:>8} {:>11} {:>11} {:>8} {:>14}\n", "action", "rank", "actions",
             "predicted", "measured", "error", "median |error|");
  for (const KindError& k : c.kinds) {
    const std::optional<double> error =
        k.measured > Seconds(0) ? std::optional(k.predicted / k.measured - 1) : std::nullopt;
    fmt::print("{:<10} {:>4} {:>8} {:>11} {:>11} {:>8} {:>14}\n", to_string(k.kind), k.rank.value,
               k.actions, format_duration(k.predicted), format_duration(k.measured),
               percent(error, "{:+.1f}%"), percent(k.median_abs_error, "{:.1f}%"));
  }
  fmt::print("\nidle by cause, predicted / measured, ms\n{:>4}", "rank");
  for (const Cause& cause : kCauses) fmt::print(" {:>19}", cause.name);
  for (std::size_t r = 0; r < c.measured_metrics.ranks.size(); ++r) {
    fmt::print("\n{:>4}", r);
    for (const Cause& cause : kCauses) {
      const auto ms = [&](const StepMetrics& m) {
        return to_seconds(m.ranks[r].idle.*cause.time).count() * 1e3;
      };
      fmt::print(" {:>9.3f} / {:>7.3f}", ms(c.predicted_metrics), ms(c.measured_metrics));
    }
  }
  fmt::print("\n\nfrom predicted to measured, averaged over ranks\n");
  for (const WaterfallPart& p : c.waterfall)
    fmt::print("  {:<16} {:>+12.3f} ms\n", p.cause, p.difference.count() * 1e3);
}

void compare_traces(const CompareOptions& o, const GlobalOptions& global) {
  const TracedPlan predicted = load_traced_plan(o.first);
  const TracedPlan measured = load_traced_plan(o.second);
  require_comparable(predicted.trace, o.first);
  require_comparable(measured.trace, o.second);
  Plan same = predicted.plan.plan;
  same.model_path = measured.plan.plan.model_path;  // relative to two folders
  if (same != measured.plan.plan)
    throw InputError(o.second.string(), "weir.info.plan",
                     "is another plan than " + o.first.string() + "'s");
  const Comparison c = compare(predicted.plan.program, predicted.trace, measured.trace);
  const std::array rows{TimelineRow{&predicted.trace, 0, "predicted"},
                        TimelineRow{&measured.trace, c.typical_step, "measured"}};
  const std::array<const Trace*, 2> both{&predicted.trace, &measured.trace};
  if (o.svg) save_drawing(draw_timeline(rows, {}), timeline_csv(rows), *o.svg);
  if (o.perfetto) write_file_atomically(*o.perfetto, to_perfetto(both));
  if (o.output) {
    write_file_atomically(*o.output / "comparison.json", comparison_json(c).dump(2) + "\n");
    save_drawing(draw_timeline(rows, {}), timeline_csv(rows), *o.output / "both.svg");
    write_file_atomically(*o.output / "both.pftrace", to_perfetto(both));
  }
  if (global.json) {
    fmt::print("{}\n", comparison_json(c).dump(2));
  } else {
    print_comparison(c);
    if (o.output) fmt::print("{}\n", o.output->string());
  }
}

// Key by key where the two plan files differ, then what each is forecast to cost.
void compare_plans(const CompareOptions& o, const GlobalOptions& global) {
  const ResolvedPlan first = load_plan(o.first), second = load_plan(o.second);
  const Cluster host = host_cluster();
  const auto cost = [&](const ResolvedPlan& p) {
    return forecast(p, costs_or_builtin(o.costs, p.model, p.plan, host), host).forecast;
  };
  const Forecast a = cost(first), b = cost(second);
  const Json before = plan_json(first.plan), after = plan_json(second.plan);
  Json json{{"schema", "weir.plan_comparison/1"},
            {"differences", Json::array()},
            {"step_time_s", {a.step_time.count(), b.step_time.count()}},
            {"peak_memory_bytes", {a.peak_memory().count(), b.peak_memory().count()}},
            {"bubble_fraction", {a.metrics.bubble_fraction, b.metrics.bubble_fraction}}};
  for (const auto& [key, value] : before.items()) {
    if (value != after[key])
      json["differences"].push_back({{"key", key}, {"first", value}, {"second", after[key]}});
  }
  if (global.json) {
    fmt::print("{}\n", json.dump(2));
    return;
  }
  for (const Json& d : json["differences"]) {
    fmt::print("{:<24} {:>20} {:>20}\n", d["key"].get<std::string>(), d["first"].dump(),
               d["second"].dump());
  }
  fmt::print("{:<24} {:>20} {:>20}  ({:+.1f} %)\n",
             fmt::format("step time ({})", to_string(a.basis)), format_duration(a.step_time),
             format_duration(b.step_time), (b.step_time / a.step_time - 1) * 100);
  fmt::print("{:<24} {:>20} {:>20}\n", "peak memory", format_bytes(a.peak_memory()),
             format_bytes(b.peak_memory()));
  fmt::print("{:<24} {:>19.1f}% {:>19.1f}%\n", "bubble", a.metrics.bubble_fraction * 100,
             b.metrics.bubble_fraction * 100);
}

}  // namespace

std::string to_json(const Comparison& comparison) { return comparison_json(comparison).dump(2); }

void add_compare_command(CLI::App& app, GlobalOptions& global) {
  CLI::App* command =
      app.add_subcommand("compare", "A predicted trace with a measured one, or a plan with a plan");
  auto o = std::make_shared<CompareOptions>();
  command->add_option("first", o->first, "Predicted trace, or a plan")->required();
  command->add_option("second", o->second, "Measured trace, or a plan")->required();
  command->add_option("--costs", o->costs, "Costs to forecast plans by (default: built in)");
  command->add_option("--svg,--pdf", o->svg,
                      "Both timelines as a picture (.svg or .pdf), data as CSV beside it");
  command->add_option("--perfetto", o->perfetto, "Both timelines in one .pftrace");
  command->add_option("-o,--output", o->output,
                      "Folder for comparison.json, both timelines and both traces");
  command->callback([o, &global] {
    const bool first = is_plan(o->first), second = is_plan(o->second);
    if (first != second) throw UsageError("compare takes two traces or two plans");
    (first ? compare_plans : compare_traces)(*o, global);
  });
}

}  // namespace weir
