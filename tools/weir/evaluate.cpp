// `weir evaluate`: how good is the forecaster on this machine? A seeded random set of plans of one mini-batch: some fit
// the model, others set the interval, the rest are forecast, the forecasts written and hashed, and only then run.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "costmodel/calibrate.hpp"
#include "costmodel/intervals.hpp"
#include "plan/error.hpp"
#include "plan/model_import.hpp"
#include "plan/schedules/schedules.hpp"
#include "plan/sha256.hpp"
#include "plan/text_file.hpp"
#include "sim/partition.hpp"
#include "sim/search/sweep.hpp"
#include "tools/report/chart.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/evaluation.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/options.hpp"
#include "tools/weir/profiling.hpp"
#include "tools/weir/progress.hpp"
#include "tools/weir/trial.hpp"
#include "traces/compare.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

// Shares of all rank-time in a typical step, averaged over the held-out plans: why ranks were idle, as forecast and as
// it was.
struct IdleShares {
  std::array<double, 6> predicted{}, measured{};
};
constexpr std::array kCauses{"fill", "drain", "imbalance", "communication", "host", "optimizer"};

struct Evaluation {
  double median_error = 0, p95_error = 0, tau = 0, regret = 0, memory_error = 0;
  int hits = 0;
  CoverageBand band;
  std::optional<IntervalModel> interval;
  IdleShares idle;
  std::string sharing;  // of a GPU; empty where ranks are cores
};

// K, M, micro-batch size, partition (a boundary or two moved from the best), schedule and re-materialisation at random.
std::vector<Plan> random_plans(const EvaluateOptions& o, const Plan& base, const Model& model, const Costs& costs,
                               const Cluster& host, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&random](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  std::vector<int> divisors;
  for (int m = 1; m <= o.global_batch_size; ++m) {
    if (o.global_batch_size % m == 0) divisors.push_back(m);
  }
  const char* const schedules[] = {"gpipe", "1f1b", "zb-h1"};
  std::vector<Plan> plans;
  std::set<std::string> seen;
  const int wanted = o.fit + o.interval + o.held_out;
  for (int attempt = 0; std::ssize(plans) < wanted && attempt < 10'000; ++attempt) {
    Plan plan = base;
    // The shares of a GPU are smaller the more there are: the profile holds for this K alone.
    plan.pp = host.device.multiprocessors > 0 ? host.devices() : pick(1, 4) == 1 ? 1 : pick(1, host.devices());
    plan.microbatches = divisors[static_cast<std::size_t>(pick(0, static_cast<int>(divisors.size()) - 1))];
    plan.micro_batch_size = o.global_batch_size / plan.microbatches;
    plan.schedule = schedules[pick(0, 2)];
    const int mode = pick(0, 2);
    plan.recompute = parse_recompute(mode == 0                             ? "none"
                                     : mode == 1 || plan.microbatches == 1 ? "full"
                                                                           : "except-last",
                                     "");
    plan.boundaries = best_boundaries(layer_times(model, plan, costs, host), plan.pp);
    for (int& boundary : plan.boundaries) boundary += pick(-1, 1);
    const bool ascending =
        std::is_sorted(plan.boundaries.begin(), plan.boundaries.end(), std::less_equal<>()) &&
        (plan.boundaries.empty() ||
         (plan.boundaries.front() > 0 && plan.boundaries.back() < static_cast<int>(model.layers.size())));
    if (ascending && seen.insert(summary(plan)).second) plans.push_back(plan);
  }
  if (std::ssize(plans) < wanted) {
    throw UsageError(
        fmt::format("only {} different plans exist for these sizes; {} were asked for", plans.size(), wanted));
  }
  return plans;
}

// Kendall's tau-a over pairs whose measured times differ by more than the noise of both (interquartile ranges).
double kendall(const std::vector<Trial>& trials, const std::vector<double>& predicted) {
  const auto noise = [](const Trial& t) {
    std::vector<double> times = t.times;
    std::sort(times.begin(), times.end());
    return times[times.size() * 3 / 4] - times[times.size() / 4];
  };
  int concordant = 0, discordant = 0;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    for (std::size_t j = i + 1; j < trials.size(); ++j) {
      const double measured = (trials[i].measured() - trials[j].measured()).count();
      if (std::abs(measured) <= noise(trials[i]) + noise(trials[j])) continue;
      (measured * (predicted[i] - predicted[j]) > 0 ? concordant : discordant)++;
    }
  }
  return concordant + discordant == 0 ? 1.0 : static_cast<double>(concordant - discordant) / (concordant + discordant);
}

Evaluation judge(const std::vector<Trial>& held_out, const std::optional<IntervalModel>& interval) {
  Evaluation e;
  e.interval = interval;
  if (interval) e.band = coverage_band(*interval, static_cast<int>(held_out.size()));
  std::vector<double> errors, predicted;
  double best = 1e300;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < held_out.size(); ++i) {
    const Trial& t = held_out[i];
    const double forecast = t.first.forecast.step_time.count(), measured = t.measured().count();
    predicted.push_back(forecast);
    errors.push_back(std::abs(forecast / measured - 1));
    best = std::min(best, measured);
    if (forecast < predicted[chosen]) chosen = i;
    const double log_ratio = std::log(measured / forecast);
    if (interval && log_ratio >= interval->log_low && log_ratio <= interval->log_high) ++e.hits;
    const auto peak = static_cast<double>(t.measured_peak().count());
    e.memory_error =
        std::max(e.memory_error, std::abs(static_cast<double>(t.first.forecast.peak_memory().count()) / peak - 1));
  }
  e.tau = kendall(held_out, predicted);
  e.regret = held_out[chosen].measured().count() / best - 1;
  e.median_error = median(errors);
  std::sort(errors.begin(), errors.end());
  e.p95_error = errors[static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(errors.size()))) - 1];
  return e;
}

void add_shares(std::array<double, 6>& shares, const StepMetrics& metrics, double weight) {
  for (const RankMetrics& rank : metrics.ranks) {
    const std::array idle{rank.idle.fill,          rank.idle.drain, rank.idle.imbalance,
                          rank.idle.communication, rank.idle.host,  rank.idle.optimizer};
    const double whole = static_cast<double>((rank.busy + rank.idle.total()).count());
    for (std::size_t c = 0; c < idle.size(); ++c) {
      shares[c] += weight / static_cast<double>(metrics.ranks.size()) * static_cast<double>(idle[c].count()) / whole;
    }
  }
}

IdleShares idle_shares(const std::vector<Trial>& held_out) {
  IdleShares shares;
  for (const Trial& t : held_out) {
    const Comparison c = compare(t.program, t.first.trace, t.run.trace);
    add_shares(shares.predicted, c.predicted_metrics, 1.0 / static_cast<double>(held_out.size()));
    add_shares(shares.measured, c.measured_metrics, 1.0 / static_cast<double>(held_out.size()));
  }
  return shares;
}

nlohmann::ordered_json evaluation_json(const Evaluation& e, const EvaluateOptions& o, std::uint64_t seed,
                                       const std::string& hash) {
  nlohmann::ordered_json coverage = nullptr;
  if (e.interval) {
    coverage = {{"nominal", e.interval->nominal},
                {"hits", e.hits},
                {"of", o.held_out},
                {"band", {e.band.low, e.band.high}},
                {"calibration_plans", e.interval->calibration_plans}};
  }
  nlohmann::ordered_json idle;
  for (std::size_t c = 0; c < kCauses.size(); ++c) {
    idle[kCauses[c]] = {{"predicted", e.idle.predicted[c]}, {"measured", e.idle.measured[c]}};
  }
  return {{"schema", "weir.evaluation/1"},
          {"machine", machine_name(parse_backend(o.backend))},
          {"backend", o.backend},
          {"seed", seed},
          {"predictions_sha256", hash},
          {"plans", o.held_out},
          {"median_abs_error", e.median_error},
          {"p95_abs_error", e.p95_error},
          {"kendall_tau", e.tau},
          {"top1_regret", e.regret},
          {"coverage", coverage},
          {"memory_max_abs_error", e.memory_error},
          {"idle", idle},
          {"sharing", e.sharing.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(e.sharing)}};
}

void scatter(const std::vector<Trial>& held_out, const std::filesystem::path& file) {
  Series dots{"held-out plans", {}, {86, 141, 208}, Series::Mark::dots};
  for (const Trial& t : held_out)
    dots.points.emplace_back(t.measured().count() * 1e3, t.first.forecast.step_time.count() * 1e3);
  Chart chart{"Forecast against measured step time", "measured, ms", "forecast, ms", {dots}};
  chart.diagonal = true;
  save_drawing(draw_chart(chart), chart_csv(chart), file);
}

struct Evaluated {
  std::vector<Trial> held_out;
  Evaluation evaluation;
  nlohmann::ordered_json json;
};

Evaluated evaluate_here(const EvaluateOptions& o, const GlobalOptions& global) {
  const Backends backends = available_backends();
  const BackendKind backend = parse_backend(o.backend);
  if (backend == BackendKind::synthetic) throw UsageError("--backend synthetic: timed waits cannot be forecast");
  const Cluster host = host_cluster(backend, o.devices > 0 ? o.devices : default_devices(backend));
  const Model model = load_model(o.common.model);
  const Plan base = base_plan(o.common, global.seed, model);
  ProfileRequest profiling;
  profiling.backend = backend;
  profiling.devices = o.devices;
  profiling.progress = !global.quiet;
  profiling.micro_batch_sizes.clear();
  for (int b = 1; b <= o.global_batch_size; ++b) {
    if (o.global_batch_size % b == 0) profiling.micro_batch_sizes.push_back(b);
  }
  Costs costs = profile_machine(model, base, profiling, backends);
  const std::vector<Plan> plans = random_plans(o, base, model, costs, host, global.seed);
  const auto trials_of = [&](int first, int count) {
    std::vector<Trial> trials;
    for (int i = first; i < first + count; ++i)
      trials.push_back(make_trial(plans[static_cast<std::size_t>(i)], costs, host));
    return trials;
  };
  const auto run_all = [&](std::vector<Trial>& trials, const char* title, int rounds) {
    ProgressBar bar(title, !global.quiet);
    TrialOptions options{
        .backend = backend, .rounds = rounds, .steps = 1, .seed = global.seed + 1, .data = {}, .progress = {}};
    options.progress = [&bar](int done, int of) { bar.show(done, of); };
    run_trials(trials, options, backends);
  };

  std::vector<Trial> fitting = trials_of(0, o.fit);
  run_all(fitting, "fit", 3);
  std::vector<CalibrationRun> runs;
  for (const Trial& t : fitting) runs.push_back({&t.plan, &t.run.trace});
  costs = calibrate(costs, runs, host).costs;

  std::vector<Trial> setting = trials_of(o.fit, o.interval);
  run_all(setting, "interval", o.rounds);
  std::vector<double> log_ratios;
  for (const Trial& t : setting) log_ratios.push_back(std::log(t.measured() / t.first.forecast.step_time));
  costs.interval = conformal_interval(log_ratios, 0.9);
  for (const Trial& t : setting) costs.range = widened(costs.range.value_or(CalibratedRange{}), t.plan.plan);

  // The forecasts are on disk, and their hash printed, before any of these plans is run.
  std::vector<Trial> held_out = trials_of(o.fit + o.interval, o.held_out);
  nlohmann::ordered_json predictions{{"schema", "weir.predictions/1"}, {"plans", nlohmann::ordered_json::array()}};
  for (const Trial& t : held_out) {
    predictions["plans"].push_back({{"plan", summary(t.plan.plan)},
                                    {"step_time_s", t.first.forecast.step_time.count()},
                                    {"peak_memory_bytes", t.first.forecast.peak_memory().count()}});
  }
  const std::string text = predictions.dump(2) + "\n";
  write_file_atomically(o.output / "predictions.json", text);
  save_costs(costs, o.output / "costs.json");
  if (!global.quiet) fmt::print(stderr, "predictions {}\n", sha256_hex(text));
  run_all(held_out, "held out", o.rounds);

  Evaluation e = judge(held_out, costs.interval);
  e.idle = idle_shares(held_out);
  const auto& devices = held_out.front().run.devices;
  if (!devices.empty()) e.sharing = devices.front().sharing;
  const auto json = evaluation_json(e, o, global.seed, sha256_hex(text));
  write_file_atomically(o.output / "evaluation.json", json.dump(2) + "\n");
  scatter(held_out, o.output / "evaluation.svg");
  return {std::move(held_out), e, json};
}

void print_evaluation(const Evaluated& evaluated, const EvaluateOptions& o, const GlobalOptions& global) {
  const auto& [held_out, e, json] = evaluated;
  if (global.json) {
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("{:<36} {:>10} {:>10} {:>8}\n", "held-out plan", "forecast", "measured", "error");
  for (const Trial& t : held_out) {
    fmt::print("{:<36} {:>10} {:>10} {:>+7.1f}%\n", summary(t.plan.plan), format_duration(t.first.forecast.step_time),
               format_duration(t.measured()), (t.first.forecast.step_time / t.measured() - 1) * 100);
  }
  fmt::print(
      "\n{} plans on {}, seed {}: median error {:.1f} %, 95th percentile {:.1f} %, Kendall's tau {:.2f}, top-1 regret "
      "{:.1f} %, "
      "peak memory within {:.2f} %\n",
      o.held_out, machine_name(parse_backend(o.backend)), global.seed, e.median_error * 100, e.p95_error * 100, e.tau,
      e.regret * 100, e.memory_error * 100);
  if (e.interval) {
    fmt::print("90 % interval of +-{:.1f} %: {} of {} inside ({} to {} of an honest one set by {} plans)\n",
               (std::exp(e.interval->log_high) - 1) * 100, e.hits, o.held_out, e.band.low, e.band.high,
               e.interval->calibration_plans);
  }
  fmt::print("idle, predicted / measured:");
  for (std::size_t c = 0; c < kCauses.size(); ++c) {
    fmt::print(" {} {:.1f} / {:.1f} %{}", kCauses[c], e.idle.predicted[c] * 100, e.idle.measured[c] * 100,
               c + 1 < kCauses.size() ? "," : "\n");
  }
  if (!e.sharing.empty()) fmt::print("{}\n", e.sharing);
  fmt::print("{}\n", o.output.string());
}

}  // namespace

std::string evaluate(const EvaluateOptions& options, std::uint64_t seed) {
  return evaluate_here(options, {.json = true, .quiet = true, .seed = seed}).json.dump(2);
}

void add_evaluate_command(CLI::App& app, GlobalOptions& global) {
  CLI::App* command =
      app.add_subcommand("evaluate", "Run random held-out plans here and report the forecaster's error");
  auto o = std::make_shared<EvaluateOptions>();
  add_plan_options(*command, o->common);
  const CLI::Range positive(1, 1 << 16);
  command->add_option("--global-batch-size", o->global_batch_size, "Samples a step")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--fit", o->fit, "Plans that fit the model")->check(positive)->capture_default_str();
  command->add_option("--interval", o->interval, "Plans that set the interval (9 or more)")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--held-out", o->held_out, "Plans forecast before they are run")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--backend", o->backend, "cpu or cuda")->capture_default_str();
  command
      ->add_option("-K,--pp", o->devices,
                   "Most ranks; of the cuda backend all plans' (default: all cores, 2 shares of the GPUs)")
      ->check(CLI::Range(1, 1 << 10));
  command->add_option("--rounds", o->rounds, "Runs of each held-out plan")->check(positive)->capture_default_str();
  command->add_option("-o,--output", o->output, "Folder")->capture_default_str();
  command->callback([o, &global] { print_evaluation(evaluate_here(*o, global), *o, global); });
}

}  // namespace weir
