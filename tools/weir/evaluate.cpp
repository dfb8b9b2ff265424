// `weir evaluate`: how good is the forecaster on this machine? A seeded random set of plans of one
// mini-batch: some fit the model, others set the interval, the rest are forecast, the forecasts
// written and hashed, and only then run.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "costmodel/fit/calibrate.hpp"
#include "costmodel/fit/intervals.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/partition.hpp"
#include "sim/search/balance.hpp"
#include "sim/search/sweep.hpp"
#include "tools/report/evaluation_report.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/evaluation.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/options.hpp"
#include "tools/weir/profiling.hpp"
#include "tools/weir/progress.hpp"
#include "tools/weir/trial.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

// The K to draw from: those asked for, or up to a core each. The shares of a GPU are smaller the
// more there are, so a profile of them holds for one K.
std::vector<int> stages_of(const EvaluateOptions& o, const Model& model) {
  const int layers = static_cast<int>(model.layers.size());
  const BackendKind backend = parse_backend(o.backend);
  if (backend == BackendKind::cuda && o.stages.size() > 1) {
    throw UsageError(
        "--backend cuda: --pp takes one number, since layers are timed on shares of the GPU for "
        "one K");
  }
  std::vector<int> stages = o.stages;
  if (stages.empty() && backend == BackendKind::cuda) stages.push_back(default_devices(backend));
  if (stages.empty()) {
    for (int k = 1; k <= std::min(default_devices(backend), layers); ++k) stages.push_back(k);
  }
  for (const int k : stages) {
    if (k < 1 || k > layers) {
      throw InputError(o.common.model, "layers",
                       fmt::format("K = {} needs as many layers, there are {}", k, layers));
    }
  }
  return stages;
}

// K, M, micro-batch size, partition (a boundary or two moved from the best), schedule and
// re-materialisation at random.
std::vector<Plan> random_plans(const EvaluateOptions& o, const Plan& base, const Model& model,
                               const Costs& costs, const Cluster& host, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  std::vector<int> divisors;
  for (int m = 1; m <= o.global_batch_size; ++m) {
    if (o.global_batch_size % m == 0) divisors.push_back(m);
  }
  const std::vector<int> stages = stages_of(o, model);
  const char* const schedules[] = {"gpipe", "1f1b", "zb-h1"};
  std::vector<Plan> plans;
  std::set<std::string> seen;
  const int wanted = o.fit + o.interval + o.held_out;
  for (int attempt = 0; std::ssize(plans) < wanted && attempt < 10'000; ++attempt) {
    Plan plan = base;
    plan.pp = stages[static_cast<std::size_t>(pick(0, static_cast<int>(stages.size()) - 1))];
    plan.microbatches =
        divisors[static_cast<std::size_t>(pick(0, static_cast<int>(divisors.size()) - 1))];
    plan.micro_batch_size = o.global_batch_size / plan.microbatches;
    plan.schedule = schedules[pick(0, 2)];
    const int mode = pick(0, 2);
    plan.recompute = parse_recompute(mode == 0                             ? "none"
                                     : mode == 1 || plan.microbatches == 1 ? "full"
                                                                           : "except-last",
                                     "");
    plan.boundaries =
        best_boundaries(layer_times(plan, LayerCosts(plan, model, costs), host), plan.pp);
    for (int& boundary : plan.boundaries) boundary += pick(-1, 1);
    const bool ascending =
        std::is_sorted(plan.boundaries.begin(), plan.boundaries.end(), std::less_equal<>()) &&
        (plan.boundaries.empty() ||
         (plan.boundaries.front() > 0 &&
          plan.boundaries.back() < static_cast<int>(model.layers.size())));
    if (ascending && seen.insert(summary(plan)).second) plans.push_back(plan);
  }
  if (std::ssize(plans) < wanted) {
    throw UsageError(fmt::format("only {} different plans exist for these sizes; {} were asked for",
                                 plans.size(), wanted));
  }
  return plans;
}

Outcome outcome_of(const Trial& t) {
  const Forecast& f = t.first.forecast;
  return {t.plan.plan, f.step_time, f.interval, t.times, f.peak_memory(), t.measured_peak()};
}

nlohmann::ordered_json outcome_json(const Outcome& o) {
  nlohmann::ordered_json interval = nullptr;
  if (o.interval) interval = {o.interval->low.count(), o.interval->high.count()};
  return {{"plan", summary(o.plan)},
          {"predicted_step_time_s", o.predicted.count()},
          {"step_time_interval_s", interval},
          {"measured_step_time_s", o.measured().count()},
          {"times_s", o.times_s},
          {"predicted_peak_memory_bytes", o.predicted_peak.count()},
          {"measured_peak_memory_bytes", o.measured_peak.count()}};
}

nlohmann::ordered_json evaluation_json(const EvaluationReport& r) {
  const Accuracy& a = r.accuracy;
  nlohmann::ordered_json coverage = nullptr;
  if (r.interval) {
    coverage = {{"nominal", r.interval->nominal},
                {"hits", a.hits},
                {"of", a.with_interval},
                {"band", {r.band.low, r.band.high}},
                {"calibration_plans", r.interval->calibration_plans}};
  }
  nlohmann::ordered_json json{{"schema", "weir.evaluation/1"},
                              {"machine", r.machine},
                              {"seed", r.seed},
                              {"predictions_sha256", r.predictions_sha256},
                              {"plans", r.outcomes.size()},
                              {"median_abs_error", a.median_error},
                              {"p95_abs_error", a.p95_error},
                              {"kendall_tau", a.tau},
                              {"top1_regret", a.regret},
                              {"coverage", coverage},
                              {"memory_max_abs_error", a.memory_error},
                              {"sharing", r.sharing.empty() ? nlohmann::ordered_json(nullptr)
                                                            : nlohmann::ordered_json(r.sharing)},
                              {"idle", nlohmann::ordered_json::object()},
                              {"trials", nlohmann::ordered_json::array()}};
  for (std::size_t c = 0; c < kIdleCauses.size(); ++c) {
    json["idle"][kIdleCauses[c]] = {{"predicted", r.idle.predicted[c]},
                                    {"measured", r.idle.measured[c]}};
  }
  for (const Outcome& o : r.outcomes) json["trials"].push_back(outcome_json(o));
  return json;
}

// The plans of one evaluation and the costs they are forecast by, from the profile to the held-out
// plans' runs.
class Evaluator {
 public:
  Evaluator(const EvaluateOptions& o, const GlobalOptions& global)
      : o_(o),
        global_(global),
        backend_(parse_backend(o.backend)),
        model_(load_model(o.common)),
        base_(base_plan(o.common, global.seed, model_)) {
    const std::vector<int> stages = stages_of(o, model_);
    const int most = *std::max_element(stages.begin(), stages.end());
    host_ = local_cluster(backend_, most);
    profile(most);
    plans_ = random_plans(o, base_, model_, costs_, host_, global.seed);
  }

  EvaluationReport run() {
    fit();
    set_interval();
    return judge();
  }

 private:
  void profile(int most_stages) {
    ProfileRequest profiling;
    profiling.backend = backend_;
    if (backend_ == BackendKind::cuda) profiling.devices = most_stages;
    profiling.progress = !global_.quiet;
    profiling.micro_batch_sizes.clear();
    for (int b = 1; b <= o_.global_batch_size; ++b) {
      if (o_.global_batch_size % b == 0) profiling.micro_batch_sizes.push_back(b);
    }
    costs_ = profile_machine(model_, base_, profiling, backends_);
  }

  [[nodiscard]] std::vector<Trial> trials(int first, int count) const {
    std::vector<Trial> made;
    for (int i = first; i < first + count; ++i) {
      made.push_back(make_trial(plans_[static_cast<std::size_t>(i)], costs_, host_));
    }
    return made;
  }

  void run_all(std::vector<Trial>& trials, const char* title, int rounds) const {
    ProgressBar bar(title, !global_.quiet);
    TrialOptions options{
        .backend = backend_,
        .rounds = rounds,
        .steps = backend_ == BackendKind::cuda ? 4 : 1,  // short beside making the weights
        .seed = global_.seed + 1,
        .data = {},
        .progress = {}};
    options.progress = [&bar](int done, int of) { bar.show(done, of); };
    run_trials(trials, options, backends_);
  }

  void fit() {
    std::vector<Trial> fitting = trials(0, o_.fit);
    run_all(fitting, "fit", 3);
    std::vector<CalibrationRun> runs;
    for (const Trial& t : fitting) runs.push_back({&t.plan, &t.run.trace});
    costs_ = calibrate(costs_, runs, host_).costs;
    std::vector<double> misses;
    for (const Trial& t : fitting) {
      const Seconds predicted = forecast(t.plan, costs_, host_).forecast.step_time;
      misses.push_back(std::abs(std::log(t.measured() / predicted)));
    }
    model_spread_ = median(misses);
  }

  void set_interval() {
    std::vector<Trial> setting = trials(o_.fit, o_.interval);
    run_all(setting, "interval", o_.rounds);
    std::vector<Miss> misses;
    for (const Trial& t : setting) {
      const Forecast& f = t.first.forecast;
      misses.push_back({std::log(t.measured() / f.step_time), f.jitter_spread});
      costs_.range = widened(costs_.range.value_or(CalibratedRange{}), t.plan.plan);
    }
    costs_.interval = conformal_interval(misses, 0.9, model_spread_);
    save_costs(costs_, o_.output / "costs.json");
  }

  // The forecasts are on disk, and their hash printed, before any of these plans is run.
  EvaluationReport judge() {
    std::vector<Trial> held_out = trials(o_.fit + o_.interval, o_.held_out);
    nlohmann::ordered_json predictions{{"schema", "weir.predictions/1"},
                                       {"plans", nlohmann::ordered_json::array()}};
    for (const Trial& t : held_out) {
      predictions["plans"].push_back(
          {{"plan", summary(t.plan.plan)},
           {"step_time_s", t.first.forecast.step_time.count()},
           {"peak_memory_bytes", t.first.forecast.peak_memory().count()}});
    }
    const std::string text = predictions.dump(2) + "\n";
    write_file_atomically(o_.output / "predictions.json", text);
    if (!global_.quiet) fmt::print(stderr, "predictions {}\n", sha256_hex(text));
    run_all(held_out, "held out", o_.rounds);

    EvaluationReport report{.model = model_.name,
                            .machine = machine_name(backend_),
                            .seed = global_.seed,
                            .fitted = o_.fit,
                            .predictions_sha256 = sha256_hex(text),
                            .outcomes = {},
                            .accuracy = {},
                            .interval = costs_.interval,
                            .band = {},
                            .idle = idle_shares(held_out),
                            .sharing = {}};
    const auto& devices = held_out.front().run.devices;
    if (!devices.empty()) report.sharing = devices.front().sharing;
    for (const Trial& t : held_out) report.outcomes.push_back(outcome_of(t));
    report.accuracy = accuracy(report.outcomes);
    if (report.interval)
      report.band = coverage_band(*report.interval, report.accuracy.with_interval);
    return report;
  }

  const EvaluateOptions& o_;
  const GlobalOptions& global_;
  const Backends backends_ = available_backends();
  BackendKind backend_;
  Model model_;
  Plan base_;
  Cluster host_;
  Costs costs_;
  std::vector<Plan> plans_;
  double model_spread_ = 0;
};

EvaluationReport evaluate_here(const EvaluateOptions& o, const GlobalOptions& global) {
  EvaluationReport report = Evaluator(o, global).run();
  write_file_atomically(o.output / "evaluation.json", evaluation_json(report).dump(2) + "\n");
  const Chart scatter = scatter_chart(report.outcomes);
  save_drawing(draw_chart(scatter), chart_csv(scatter), o.output / "evaluation.svg");
  write_file_atomically(o.output / "report.html", evaluation_html(report));
  return report;
}

void print_evaluation(const EvaluationReport& report, const EvaluateOptions& o,
                      const GlobalOptions& global) {
  if (global.json) {
    fmt::print("{}\n", evaluation_json(report).dump(2));
    return;
  }
  fmt::print("{:<36} {:>10} {:>10} {:>8}\n", "held-out plan", "forecast", "measured", "error");
  for (const Outcome& outcome : report.outcomes) {
    fmt::print("{:<36} {:>10} {:>10} {:>+7.1f}%{}\n", summary(outcome.plan),
               format_duration(outcome.predicted), format_duration(outcome.measured()),
               outcome.error() * 100,
               outcome.interval && !outcome.inside() ? "  outside its interval" : "");
  }
  fmt::print("\n{}\nidle, predicted / measured:", accuracy_text(report));
  for (std::size_t c = 0; c < kIdleCauses.size(); ++c) {
    fmt::print(" {} {:.1f} / {:.1f} %{}", kIdleCauses[c], report.idle.predicted[c] * 100,
               report.idle.measured[c] * 100, c + 1 < kIdleCauses.size() ? "," : "\n");
  }
  if (!report.sharing.empty()) fmt::print("{}\n", report.sharing);
  fmt::print("{}\n", (o.output / "report.html").string());
}

}  // namespace

std::string evaluate(const EvaluateOptions& options, std::uint64_t seed) {
  return evaluation_json(evaluate_here(options, {.json = true, .quiet = true, .seed = seed}))
      .dump(2);
}

void add_evaluate_command(CLI::App& app, GlobalOptions& global) {
  CLI::App* command = app.add_subcommand(
      "evaluate", "Run random held-out plans here and report the forecaster's error");
  auto o = std::make_shared<EvaluateOptions>();
  auto stages = std::make_shared<std::string>();
  add_plan_options(*command, o->common);
  const CLI::Range positive(1, 1 << 16);
  command->add_option("--backend", o->backend, "cpu or cuda")->capture_default_str();
  command->add_option(
      "-K,--pp", *stages,
      "Stages to draw from, 1,2,4 (default: up to a core each; cuda: one number, 2)");
  command->add_option("--global-batch-size", o->global_batch_size, "Samples a step")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--fit", o->fit, "Plans that fit the model")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--interval", o->interval, "Plans that set the interval (9 or more)")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--held-out", o->held_out, "Plans forecast before they are run")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--rounds", o->rounds, "Runs of each held-out plan")
      ->check(positive)
      ->capture_default_str();
  command->add_option("-o,--output", o->output, "Folder")->capture_default_str();
  command->callback([o, stages, &global] {
    if (!stages->empty()) o->stages = parse_numbers(*stages, "--pp");
    if (parse_backend(o->backend) == BackendKind::synthetic) {
      throw UsageError("--backend synthetic: timed waits have nothing to forecast");
    }
    print_evaluation(evaluate_here(*o, global), *o, global);
  });
}

}  // namespace weir
