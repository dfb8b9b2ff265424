// `weir sweep`: searches plans; `--run` executes each row beside its forecast.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/sweep.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "costmodel/table/builtin.hpp"
#include "exec/run/run.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/search/baseline.hpp"
#include "sim/search/sweep_json.hpp"
#include "tools/app/builtin_accuracy.hpp"
#include "tools/report/chart.hpp"
#include "tools/report/search.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/options.hpp"
#include "tools/weir/parallel_options.hpp"
#include "tools/weir/progress.hpp"
#include "tools/weir/sweep_limits.hpp"
#include "tools/weir/synthetic.hpp"
#include "traces/metrics.hpp"

namespace weir {
namespace {

struct SweepOptions {
  PlanOptions common;
  ParallelLists parallel;
  std::string pp = "1..8", vpp = "1", microbatches, micro_batch_size = "1", schedule = "gpipe,1f1b",
              recompute = "none";
  std::string memory_limit, backend = "cpu";
  std::optional<int> global_batch_size;
  std::optional<std::filesystem::path> costs, cluster, picture, output, baseline, report;
  int top = 20, steps = 5, threads = 0;
  bool run = false;
};

struct Row {
  const Ranked* ranked;
  bool baseline = false;
  std::optional<Seconds> measured;
  std::optional<double> bubble;
};

SweepRequest request_for(const SweepOptions& o, const Plan& base, const Cluster& cluster) {
  SweepRequest request;
  request.base = base;
  request.exact_slots = o.common.slots.has_value();
  request.folder = ".";
  request.pp = parse_numbers(o.pp, "--pp");
  request.vpp = parse_numbers(o.vpp, "--vpp");
  if (!o.microbatches.empty())
    request.microbatches = parse_numbers(o.microbatches, "--microbatches");
  request.micro_batch_size = parse_numbers(o.micro_batch_size, "--micro-batch-size");
  request.global_batch_size = o.global_batch_size;
  request.schedules = parse_words(o.schedule);
  request.recompute.clear();
  for (const std::string& mode : parse_words(o.recompute))
    request.recompute.push_back(parse_recompute(mode, ""));
  apply(o.parallel, request);
  set_limits(request, {o.memory_limit, o.cluster}, cluster);
  request.threads = o.threads;
  return request;
}

void run_rows(std::vector<Row>& rows, const SweepOptions& o, bool progress) {
  ProgressBar bar("run", progress);
  const Backends backends = available_backends();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ResolvedPlan loaded = resolve(rows[i].ranked->plan, ".");
    RunOptions options;
    options.backend = parse_backend(o.backend);
    options.steps = o.steps;
    if (options.backend == BackendKind::synthetic)
      options.synthetic_duration_ns = synthetic_durations(loaded, o.costs);
    const RunResult result = run(loaded, options, backends);
    rows[i].measured = result.step_time;
    std::vector<double> bubbles;
    const Program& program = loaded.program;
    for (std::int32_t step = 0; step < o.steps; ++step)
      bubbles.push_back(step_metrics(program, result.trace, step).bubble_fraction);
    std::sort(bubbles.begin(), bubbles.end());
    rows[i].bubble = bubbles[bubbles.size() / 2];
    bar.show(static_cast<int>(i) + 1, static_cast<int>(rows.size()));
  }
}

void print_rows(const SweepResult& result, const std::vector<Row>& rows) {
  fmt::print("{} candidates, {} feasible, {:.2f} s\n", result.candidates, result.feasible,
             result.seconds);
  for (const std::string& reason : result.refused)
    fmt::print(stderr, "weir: left out: {}\n", reason);
  fmt::print("{:<44} {:>10} {:>10} {:>8} {:>8} {:>11} {:>6} {:>6}\n", "plan", "predicted",
             "measured", "bubble p", "bubble m", "peak memory", "gap", "pareto");
  for (const Row& row : rows) {
    const Forecast& f = row.ranked->forecast;
    fmt::print("{:<44} {:>10} {:>10} {:>7.1f}% {:>8} {:>11} {:>5.1f}% {:>6}{}\n",
               summary(row.ranked->plan), format_duration(f.step_time),
               row.measured ? format_duration(*row.measured) : "-", f.metrics.bubble_fraction * 100,
               row.bubble ? fmt::format("{:.1f}%", *row.bubble * 100) : "-",
               format_bytes(f.peak_memory()), row.ranked->gap * 100,
               row.ranked->pareto ? "yes" : "", row.baseline ? " (baseline)" : "");
  }
}

void print_baseline(const Baseline& baseline, const SweepResult& result,
                    const std::filesystem::path& file) {
  const Forecast& f = baseline.ranked.forecast;
  const std::string place =
      baseline.place ? fmt::format("place {} among {} plans", *baseline.place, result.feasible)
                     : fmt::format("does not fit: {} of {}", format_bytes(f.peak_memory()),
                                   format_bytes(*f.memory_limit));
  fmt::print(
      "baseline {}: {}; its step takes {:.3f} times the best plan's, on {} devices where that has "
      "{}\n",
      file.string(), place, baseline.ratio, f.devices, result.plans.front().forecast.devices);
}

// Bubble and memory against M for the largest K that was run with several M.
void draw(const std::vector<Row>& rows, const std::filesystem::path& file) {
  int ranks = 0;
  for (const Row& row : rows) ranks = std::max(ranks, row.ranked->plan.pp);
  std::map<int, BubblePoint> points;
  for (const Row& row : rows) {
    const Plan& plan = row.ranked->plan;
    if (plan.pp != ranks || points.contains(plan.microbatches)) continue;  // best first
    points[plan.microbatches] = {
        plan.microbatches, row.ranked->forecast.metrics.bubble_fraction, row.bubble,
        static_cast<double>(row.ranked->forecast.peak_memory().count()) / (1 << 30)};
  }
  std::vector<BubblePoint> ordered;
  for (const auto& [m, point] : points) ordered.push_back(point);
  const auto [bubble, memory] = bubble_charts(ordered, ranks);
  save_drawing(beside(draw_chart(bubble), draw_chart(memory)),
               chart_csv(bubble) + chart_csv(memory), file);
}

// What stands behind the forecasts, for people.
std::string trust(const Costs& costs, const Cluster& cluster) {
  if (costs.basis == Basis::builtin)
    return describe(builtin_accuracy(cluster.device.name), cluster.device.name);
  return fmt::format("{} costs of {}", to_string(costs.basis), costs.machine);
}

void write_report(const SweepResult& result, const SweepOptions& o, const Costs& costs,
                  const Cluster& cluster) {
  SearchReport report{.title = "weir sweep: " + o.common.model.filename().string(),
                      .machine = cluster.name,
                      .costs_origin = costs.origin,
                      .trust = trust(costs, cluster),
                      .result = &result};
  for (const Ranked& ranked : result.plans) report.names.push_back(summary(ranked.plan));
  if (result.baseline) report.baseline_name = summary(result.baseline->ranked.plan);
  report.best = forecast(resolve(result.plans.front().plan, "."), costs, cluster).trace;
  write_file_atomically(*o.report, search_html(report));
}

nlohmann::ordered_json sweep_json(const SweepResult& result, const std::vector<Row>& rows) {
  nlohmann::ordered_json json = sweep_json(result);
  std::size_t i = 0;
  for (const Row& row : rows) {
    auto& its = row.baseline ? json["baseline"] : json["plans"][i++];
    if (row.measured) its["measured_step_time_s"] = row.measured->count();
    if (row.bubble) its["measured_bubble_fraction"] = *row.bubble;
  }
  return json;
}

// The plan in use today, its paths from here on relative to this folder.
ResolvedPlan load_baseline(const std::filesystem::path& file) {
  ResolvedPlan loaded = load_plan(file);
  loaded.plan = rebased(loaded.plan, std::filesystem::absolute(file).parent_path(), ".");
  return loaded;
}

// What the options leave open is the baseline's.
void complete(SweepOptions& o, const Plan& baseline, const CLI::App& command) {
  if (command.count("--seq-length") == 0) o.common.seq_length = baseline.seq_length;
  if (command.count("--dtype") == 0) o.common.dtype = to_string(baseline.dtype);
  if (command.count("--attention") == 0) o.common.attention = to_string(baseline.attention);
  if (command.count("--optimizer") == 0)
    o.common.optimizer = baseline.optimizer.kind == OptimizerKind::sgd ? "sgd" : "adamw";
  if (!o.global_batch_size) o.global_batch_size = static_cast<int>(baseline.global_batch_size());
}

// The best `top` plans, or all of them, and the baseline at its place, or last.
std::vector<Row> rows_of(const SweepResult& result, std::size_t top) {
  std::vector<Row> rows;
  for (const Ranked& ranked : result.plans) {
    if (rows.size() < top) rows.push_back({.ranked = &ranked});
  }
  if (!result.baseline) return rows;
  const std::size_t place =
      result.baseline->place ? static_cast<std::size_t>(*result.baseline->place) - 1 : rows.size();
  const auto at = rows.begin() + static_cast<std::ptrdiff_t>(std::min(place, rows.size()));
  rows.insert(at, {.ranked = &result.baseline->ranked, .baseline = true});
  return rows;
}

// A search that found something, with what it was made by.
struct Found {
  Cluster cluster;
  Costs costs;
  SweepResult result;
  [[nodiscard]] bool builtin() const { return costs.basis == Basis::builtin; }
};

Found search(SweepOptions& o, const CLI::App& command, const GlobalOptions& global) {
  std::optional<ResolvedPlan> baseline;
  if (o.baseline) {
    baseline = load_baseline(*o.baseline);
    complete(o, baseline->plan, command);
  }
  const Model model = load_model(o.common);
  const Plan base = base_plan(o.common, global.seed, model);
  Found found{.cluster = cluster_or_host(o.cluster)};
  SweepRequest request = request_for(o, base, found.cluster);
  request.baseline = std::move(baseline);
  const auto differs =
      request.baseline ? incomparable(*request.baseline, request, model) : std::nullopt;
  if (differs) throw InputError(o.baseline->string(), differs->key, differs->reason);
  found.costs = o.costs ? load_costs(*o.costs)
                        : builtin_costs(model, base.seq_length, base.dtype, found.cluster,
                                        splits(request, model));
  found.result = sweep(request, found.costs, found.cluster);
  if (found.result.plans.empty()) {
    for (const std::string& reason : found.result.refused)
      fmt::print(stderr, "weir: left out: {}\n", reason);
  }
  require_feasible(found.result, request);
  return found;
}

void run_sweep(SweepOptions o, const CLI::App& command, const GlobalOptions& global) {
  const Found found = search(o, command, global);
  const SweepResult& result = found.result;
  std::vector<Row> rows =
      rows_of(result, o.run ? result.plans.size() : static_cast<std::size_t>(std::max(o.top, 0)));
  if (o.run) run_rows(rows, o, !global.quiet);
  std::optional<std::filesystem::path> picture = o.picture;
  if (o.run && !picture) picture = "weir-out/sweep.svg";
  if (picture) draw(rows, *picture);
  if (o.report) write_report(result, o, found.costs, found.cluster);
  std::string json;
  if (o.output || global.json) {
    nlohmann::ordered_json whole = sweep_json(result, rows);
    if (found.builtin()) whole = with_accuracy(std::move(whole), found.cluster.device.name);
    json = whole.dump(2);
  }
  if (o.output) write_file_atomically(*o.output, json + "\n");
  if (global.json) {
    fmt::print("{}\n", json);
    return;
  }
  print_rows(result, rows);
  if (result.baseline) print_baseline(*result.baseline, result, *o.baseline);
  if (found.builtin()) fmt::print("{}\n", trust(found.costs, found.cluster));
  if (o.report) fmt::print("{}\n", o.report->string());
  if (picture) fmt::print("{}\n", picture->string());
}

}  // namespace

void set_limits(SweepRequest& request, const SweepLimits& limits, const Cluster& cluster) {
  if (!request.global_batch_size && request.microbatches.empty()) {
    throw UsageError("sweep needs --microbatches, --global-batch-size, or both");
  }
  request.memory_limit =
      limits.memory.empty() ? cluster.device.memory : parse_memory(limits.memory, "--memory-limit");
  if (limits.cluster) {
    request.devices = cluster.devices();
    std::erase_if(request.pp, [&](int k) { return k > cluster.devices(); });
    if (request.pp.empty())
      throw NoFeasiblePlan(
          fmt::format("{} has {} devices", limits.cluster->string(), cluster.devices()));
  }
}

void require_feasible(const SweepResult& result, const SweepRequest& request) {
  if (!result.plans.empty()) return;
  throw NoFeasiblePlan(
      result.smallest_misfit
          ? fmt::format("no plan fits {}; the smallest ({}) needs {}",
                        format_bytes(*request.memory_limit), summary(result.smallest_misfit->plan),
                        format_bytes(result.smallest_misfit->forecast.peak_memory()))
          : "no plan is possible for these options");
}

void add_sweep_command(CLI::App& app, GlobalOptions& global) {
  CLI::App* command =
      app.add_subcommand("sweep", "Search K, M, partition, schedule and re-materialisation");
  auto o = std::make_shared<SweepOptions>();
  add_plan_options(*command, o->common);
  command->add_option("-K,--pp", o->pp, "Ranks: 4, 1,2,4 or 1..8")->capture_default_str();
  command->add_option("-v,--vpp", o->vpp, "Stages a rank")->capture_default_str();
  command->add_option("-M,--microbatches", o->microbatches,
                      "Micro-batches (default: all divisors of the mini-batch)");
  command
      ->add_option("-b,--micro-batch-size", o->micro_batch_size,
                   "Samples a micro-batch, without --global-batch-size")
      ->capture_default_str();
  add_parallel_lists(*command, o->parallel);
  command->add_option("--global-batch-size", o->global_batch_size, "Samples a step")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--schedule", o->schedule, "Schedules, as gpipe,1f1b")->capture_default_str();
  command->add_option("--recompute", o->recompute, "none, selective, full, except-last, or several")
      ->capture_default_str();
  command->add_option("--memory-limit", o->memory_limit, "Memory of a device, as \"80 GiB\"");
  command->add_option("--costs", o->costs, "Costs file (default: built in)");
  command->add_option("--cluster", o->cluster, "Cluster file (default: this machine)");
  command->add_option(
      "--baseline", o->baseline,
      "The plan in use today, ranked among the results; sequence length, number format, attention, "
      "optimizer and mini-batch are its own where no option says them");
  command->add_option("--top", o->top, "Rows to print")->capture_default_str();
  command->add_option("--threads", o->threads, "Threads of the search (0: all cores)")
      ->capture_default_str();
  command->add_flag("--run", o->run, "Execute each row");
  command->add_option("--backend", o->backend, "Where --run executes: cpu or synthetic")
      ->capture_default_str();
  command->add_option("--steps", o->steps, "Measured steps of --run")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--svg,--pdf", o->picture,
                      "Bubble and memory against M as a picture, data as CSV beside it (--run: "
                      "weir-out/sweep.svg)");
  command->add_option("-o,--output", o->output, "Write weir.sweep/1 JSON");
  command->add_option("--report", o->report,
                      "Write an HTML page: the best plans, the baseline, how far to trust them");
  command->callback([o, command, &global] { run_sweep(*o, *command, global); });
}

}  // namespace weir
