// `weir tune`, the whole loop: profile, sweep, run the most promising plans, compare, recalibrate,
// re-rank, report. Start at `tune`; each step is a function below it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "costmodel/fit/calibrate.hpp"
#include "exec/run/run.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast_json.hpp"
#include "sim/search/sweep.hpp"
#include "sim/search/sweep_json.hpp"
#include "tools/report/report.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/options.hpp"
#include "tools/weir/profiling.hpp"
#include "tools/weir/progress.hpp"
#include "tools/weir/traced_plan.hpp"
#include "tools/weir/trial.hpp"
#include "traces/perfetto.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

struct TuneOptions {
  PlanOptions common;
  std::string backend = "cpu", memory_limit;
  int global_batch_size = 8, plans = 6, rounds = 3, steps = 2;
  int devices = 0;  // most ranks; 0: default_devices
  std::filesystem::path output = "weir-out";
  std::optional<std::filesystem::path> data;
};

SweepRequest request_for(const TuneOptions& o, const Plan& base, const Model& model,
                         const Cluster& host) {
  SweepRequest request;
  request.base = base;
  request.exact_slots = o.common.slots.has_value();
  request.folder = ".";
  request.pp.clear();
  // A core is a core for every K. A GPU's share is smaller the more there are, so its profile holds
  // for one K, and for the whole.
  const int most = std::min(host.devices(), static_cast<int>(model.layers.size()));
  for (int k = 1; k <= most; ++k) {
    if (parse_backend(o.backend) != BackendKind::cuda || k == 1 || k == most)
      request.pp.push_back(k);
  }
  request.global_batch_size = o.global_batch_size;
  request.recompute = {parse_recompute("none", ""), parse_recompute("full", ""),
                       parse_recompute("except-last", "")};
  request.memory_limit = o.memory_limit.empty() ? Bytes(host.device.memory.count() / 10 * 8)
                                                : parse_memory(o.memory_limit, "--memory-limit");
  return request;
}

// The fastest feasible plans that differ in more than where their micro-batches end, and the plain
// K = 1.
std::vector<Plan> choose(const SweepResult& result, const TuneOptions& o, const Plan& base) {
  std::vector<Plan> chosen;
  const auto alike = [](const Plan& a, const Plan& b) {
    return a.pp == b.pp && a.microbatches == b.microbatches && a.recompute == b.recompute &&
           (a.schedule == b.schedule || a.pp == 1);
  };
  for (const Ranked& ranked : result.plans) {
    if (static_cast<int>(chosen.size()) == o.plans) break;
    const bool seen = std::any_of(chosen.begin(), chosen.end(),
                                  [&](const Plan& p) { return alike(p, ranked.plan); });
    if (!seen) chosen.push_back(ranked.plan);
  }
  Plan plain = base;
  plain.micro_batch_size = o.global_batch_size;
  plain.schedule = "gpipe";
  if (std::none_of(chosen.begin(), chosen.end(), [&](const Plan& p) { return alike(p, plain); }))
    chosen.push_back(plain);
  return chosen;
}

// Forecast of one plan by costs fitted to all the others' runs.
Seconds forecast_left_out(const std::vector<Trial>& contenders, std::size_t out,
                          const Costs& profile, const Cluster& host) {
  std::vector<CalibrationRun> others;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (i != out) others.push_back({&contenders[i].plan, &contenders[i].run.trace});
  }
  return forecast(contenders[out].plan, calibrate(profile, others, host).costs, host)
      .forecast.step_time;
}

ReportRow row_of(const Trial& c, Seconds recalibrated) {
  ReportRow row;
  row.plan = summary(c.plan.plan);
  row.baseline = c.plan.plan.pp == 1 && c.plan.plan.microbatches == 1;
  row.forecast = c.first.forecast;
  row.recalibrated = recalibrated;
  row.measured = c.measured();
  row.measured_peak = c.measured_peak();
  row.comparison = compare(c.plan.program, c.first.trace, c.run.trace);
  row.measured_bubble = row.comparison.measured_metrics.bubble_fraction;
  row.predicted = c.first.trace;
  row.run = c.run.trace;
  return row;
}

nlohmann::ordered_json result_json(const Report& report) {
  nlohmann::ordered_json json{{"schema", "weir.tune/1"},
                              {"machine", report.machine},
                              {"candidates", report.candidates},
                              {"feasible", report.feasible},
                              {"median_abs_error", report.error_before},
                              {"median_abs_error_left_out", report.error_after},
                              {"plans", nlohmann::ordered_json::array()}};
  for (const ReportRow& row : report.rows) {
    json["plans"].push_back({{"plan", row.plan},
                             {"baseline", row.baseline},
                             {"predicted_step_time_s", row.forecast.step_time.count()},
                             {"recalibrated_step_time_s", row.recalibrated.count()},
                             {"measured_step_time_s", row.measured.count()},
                             {"predicted_peak_memory_bytes", row.forecast.peak_memory().count()},
                             {"measured_peak_memory_bytes", row.measured_peak.count()},
                             {"predicted_bubble_fraction", row.forecast.metrics.bubble_fraction},
                             {"measured_bubble_fraction", row.measured_bubble}});
  }
  return json;
}

void write_outputs(const Report& report, const std::vector<Trial>& contenders, const Costs& profile,
                   const Costs& costs, const SweepResult& swept,
                   const std::filesystem::path& folder) {
  save_costs(profile, folder / "profile.json");
  save_costs(costs, folder / "costs.json");
  write_file_atomically(folder / "sweep.json", to_json(swept) + "\n");
  write_file_atomically(folder / "tune.json", result_json(report).dump(2) + "\n");
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const Trial& c = contenders[i];
    Plan plan = c.plan.plan;
    plan.model_path = std::filesystem::proximate(std::filesystem::absolute(plan.model_path),
                                                 std::filesystem::absolute(folder))
                          .string();
    save_plan(plan, folder / fmt::format("plan-{}.json", i));
    save_traced_plan(c.first.trace, c.plan, ".", folder, fmt::format("predicted-{}", i));
    save_traced_plan(c.run.trace, c.plan, ".", folder, fmt::format("measured-{}", i));
    const std::array<const Trace*, 2> both{&c.first.trace, &c.run.trace};
    write_file_atomically(folder / fmt::format("both-{}.pftrace", i), to_perfetto(both));
  }
  write_file_atomically(folder / "report.html", report_html(report));
}

double median_error(const std::vector<ReportRow>& rows, Seconds ReportRow::*recalibrated) {
  std::vector<double> errors;
  for (const ReportRow& row : rows) {
    const Seconds predicted = recalibrated != nullptr ? row.*recalibrated : row.forecast.step_time;
    errors.push_back(std::abs(predicted / row.measured - 1));
  }
  return median(std::move(errors));
}

void tune(const TuneOptions& o, const GlobalOptions& global) {
  const Backends backends = available_backends();
  const BackendKind backend = parse_backend(o.backend);
  const Cluster host = local_cluster(backend, o.devices > 0 ? o.devices : default_devices(backend));
  const Model model = load_model(o.common);
  Plan base = base_plan(o.common, global.seed, model);
  const auto say = [&](const char* what) {
    if (!global.quiet) fmt::print(stderr, "{}\n", what);
  };

  say("profiling this machine's layers");
  ProfileRequest profiling;
  profiling.backend = backend;
  profiling.devices = o.devices;
  profiling.progress = !global.quiet;
  profiling.micro_batch_sizes.clear();
  for (int b = 1; b <= o.global_batch_size; ++b) {
    if (o.global_batch_size % b == 0) profiling.micro_batch_sizes.push_back(b);
  }
  const Costs profile = profile_machine(model, base, profiling, backends);

  say("sweeping");
  const SweepResult swept = sweep(request_for(o, base, model, host), profile, host);
  if (swept.plans.empty()) {
    throw NoFeasiblePlan(
        swept.smallest_misfit
            ? fmt::format("no plan fits the memory limit; the smallest ({}) needs {}",
                          summary(swept.smallest_misfit->plan),
                          format_bytes(swept.smallest_misfit->forecast.peak_memory()))
            : "no plan is possible for these options");
  }

  std::vector<Trial> contenders;
  for (const Plan& plan : choose(swept, o, base)) {
    Trial c = make_trial(plan, profile, host);
    c.first.forecast.memory_limit = swept.plans.front().forecast.memory_limit;
    contenders.push_back(std::move(c));
  }
  say("running the most promising plans");
  ProgressBar bar("run", !global.quiet);
  TrialOptions trials{.backend = backend,
                      .rounds = o.rounds,
                      .steps = o.steps,
                      .seed = 0,
                      .data = o.data,
                      .progress = {}};
  trials.progress = [&bar](int done, int of) { bar.show(done, of); };
  run_trials(contenders, trials, backends);

  say("recalibrating");
  std::vector<CalibrationRun> all;
  for (const Trial& c : contenders) all.push_back({&c.plan, &c.run.trace});
  const Calibration fit = calibrate(profile, all, host);
  Report report;
  report.title = "weir tune: " + model.name;
  report.machine = machine_name(backend);
  for (const Trial& c : contenders) {
    if (c.run.devices.size() > 1) report.machine += "; " + c.run.devices.front().sharing;
    if (c.run.devices.size() > 1) break;
  }
  report.costs_origin = profile.origin;
  report.candidates = swept.candidates;
  report.feasible = swept.feasible;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    contenders[i].run.trace.info = {{"machine", report.machine},
                                    {"version", WEIR_VERSION},
                                    {"backend", o.backend},
                                    {"seed", std::to_string(base.seed)}};
    if (!contenders[i].run.devices.empty()) {
      contenders[i].run.trace.info["sharing"] = contenders[i].run.devices.front().sharing;
    }
    report.rows.push_back(row_of(contenders[i], forecast_left_out(contenders, i, profile, host)));
  }
  report.error_before = median_error(report.rows, nullptr);
  report.error_after = median_error(report.rows, &ReportRow::recalibrated);
  std::stable_sort(report.rows.begin(), report.rows.end(),
                   [](const ReportRow& a, const ReportRow& b) { return a.measured < b.measured; });

  const SweepResult again = sweep(request_for(o, base, model, host), fit.costs, host);
  write_outputs(report, contenders, profile, fit.costs, again, o.output);
  if (global.json) {
    fmt::print("{}\n", result_json(report).dump(2));
  } else {
    fmt::print("{}\n", report_table(report));
    fmt::print(
        "median error {:.1f} % as first predicted, {:.1f} % after recalibration (each plan left "
        "out of its own fit)\n",
        report.error_before * 100, report.error_after * 100);
    fmt::print("best by recalibrated costs: {}, predicted {}\n", summary(again.plans.front().plan),
               format_duration(again.plans.front().forecast.step_time));
    fmt::print("{}\n", (o.output / "report.html").string());
  }
}

}  // namespace

void add_tune_command(CLI::App& app, GlobalOptions& global) {
  CLI::App* command =
      app.add_subcommand("tune", "The loop: profile, sweep, run the best, recalibrate, report");
  auto o = std::make_shared<TuneOptions>();
  add_plan_options(*command, o->common);
  const CLI::Range positive(1, 1 << 20);
  command->add_option("--backend", o->backend, "cpu or cuda")->capture_default_str();
  command
      ->add_option("-K,--pp", o->devices,
                   "Most ranks: cores, or equal shares of the GPUs (default: all cores, 2 shares)")
      ->check(CLI::Range(1, 1 << 10));
  command->add_option("--global-batch-size", o->global_batch_size, "Samples a step")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--plans", o->plans, "Plans to run besides the plain K = 1")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--rounds", o->rounds, "Times each plan is run, interleaved")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--steps", o->steps, "Measured steps a run")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--memory-limit", o->memory_limit,
                      "Memory of a device (default: 80 % of a core's share)");
  command->add_option("--data", o->data, "Any file, as bytes (default: seeded synthetic tokens)");
  command->add_option("-o,--output", o->output, "Folder for plans, costs, traces and report.html")
      ->capture_default_str();
  command->callback([o, &global] {
    if (parse_backend(o->backend) == BackendKind::synthetic)
      throw UsageError("--backend synthetic: timed waits cannot be tuned");
    tune(*o, global);
  });
}

}  // namespace weir
