// `weir sweep`: searches plans; `--run` executes each row beside its forecast.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/sweep.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "exec/run.hpp"
#include "plan/error.hpp"
#include "plan/model_import.hpp"
#include "plan/text_file.hpp"
#include "tools/report/chart.hpp"
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
  std::string pp = "1..8", vpp = "1", microbatches, micro_batch_size = "1", schedule = "gpipe,1f1b", recompute = "none";
  std::string memory_limit, backend = "cpu";
  std::optional<int> global_batch_size;
  std::optional<std::filesystem::path> costs, cluster, picture, output;
  int top = 20, steps = 5, threads = 0;
  bool run = false;
};

struct Row {
  const Ranked* ranked;
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
  if (!o.microbatches.empty()) request.microbatches = parse_numbers(o.microbatches, "--microbatches");
  request.micro_batch_size = parse_numbers(o.micro_batch_size, "--micro-batch-size");
  request.global_batch_size = o.global_batch_size;
  request.schedules = parse_words(o.schedule);
  request.recompute.clear();
  for (const std::string& mode : parse_words(o.recompute)) request.recompute.push_back(parse_recompute(mode, ""));
  apply(o.parallel, request);
  set_limits(request, {o.memory_limit, o.cluster}, cluster);
  request.threads = o.threads;
  return request;
}

void run_rows(std::vector<Row>& rows, const SweepOptions& o, bool progress) {
  ProgressBar bar("run", progress);
  const Backends backends = available_backends();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const LoadedPlan loaded = resolve(rows[i].ranked->plan, ".");
    RunOptions options;
    options.backend = parse_backend(o.backend);
    options.steps = o.steps;
    if (options.backend == BackendKind::synthetic) options.synthetic_duration_ns = synthetic_durations(loaded, o.costs);
    const RunResult result = run(loaded, options, backends);
    rows[i].measured = result.step_time;
    std::vector<double> bubbles;
    const Program program = lower(loaded);
    for (std::int32_t step = 0; step < o.steps; ++step)
      bubbles.push_back(step_metrics(program, result.trace, step).bubble_fraction);
    std::sort(bubbles.begin(), bubbles.end());
    rows[i].bubble = bubbles[bubbles.size() / 2];
    bar.show(static_cast<int>(i) + 1, static_cast<int>(rows.size()));
  }
}

void print_rows(const SweepResult& result, const std::vector<Row>& rows) {
  fmt::print("{} candidates, {} feasible, {:.2f} s\n", result.candidates, result.feasible, result.seconds);
  for (const std::string& reason : result.refused) fmt::print(stderr, "weir: left out: {}\n", reason);
  fmt::print("{:<44} {:>10} {:>10} {:>8} {:>8} {:>11} {:>6} {:>6}\n", "plan", "predicted", "measured", "bubble p",
             "bubble m", "peak memory", "gap", "pareto");
  for (const Row& row : rows) {
    const Forecast& f = row.ranked->forecast;
    fmt::print("{:<44} {:>10} {:>10} {:>7.1f}% {:>8} {:>11} {:>5.1f}% {:>6}\n", summary(row.ranked->plan),
               format_duration(f.step_time), row.measured ? format_duration(*row.measured) : "-",
               f.metrics.bubble_fraction * 100, row.bubble ? fmt::format("{:.1f}%", *row.bubble * 100) : "-",
               format_bytes(f.peak_memory()), row.ranked->gap * 100, row.ranked->pareto ? "yes" : "");
  }
}

// Bubble and memory against M for the largest K that was run with several M.
void draw(const std::vector<Row>& rows, const std::filesystem::path& file) {
  int ranks = 0;
  for (const Row& row : rows) ranks = std::max(ranks, row.ranked->plan.pp);
  std::map<int, BubblePoint> points;
  for (const Row& row : rows) {
    const Plan& plan = row.ranked->plan;
    if (plan.pp != ranks || points.contains(plan.microbatches)) continue;  // best first
    points[plan.microbatches] = {plan.microbatches, row.ranked->forecast.metrics.bubble_fraction, row.bubble,
                                 static_cast<double>(row.ranked->forecast.peak_memory().count()) / (1 << 30)};
  }
  std::vector<BubblePoint> ordered;
  for (const auto& [m, point] : points) ordered.push_back(point);
  const auto [bubble, memory] = bubble_charts(ordered, ranks);
  save_drawing(beside(draw_chart(bubble), draw_chart(memory)), chart_csv(bubble) + chart_csv(memory), file);
}

nlohmann::ordered_json sweep_json(const SweepResult& result, const std::vector<Row>& rows) {
  auto json = nlohmann::ordered_json::parse(to_json(result));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].measured) json["plans"][i]["measured_step_time_s"] = rows[i].measured->count();
    if (rows[i].bubble) json["plans"][i]["measured_bubble_fraction"] = *rows[i].bubble;
  }
  return json;
}

void run_sweep(const SweepOptions& o, const GlobalOptions& global) {
  const Model model = load_model(o.common);
  const Plan base = base_plan(o.common, global.seed, model);
  const Cluster cluster = cluster_or_host(o.cluster);
  const SweepRequest request = request_for(o, base, cluster);
  const Costs costs = o.costs ? load_costs(*o.costs)
                              : builtin_costs(model, base.seq_length, base.dtype, cluster, splits(request, model));
  const SweepResult result = sweep(request, costs, cluster);
  if (result.plans.empty()) {
    for (const std::string& reason : result.refused) fmt::print(stderr, "weir: left out: {}\n", reason);
  }
  require_feasible(result, request);
  std::vector<Row> rows;
  for (const Ranked& ranked : result.plans) rows.push_back({&ranked, {}, {}});
  if (!o.run && static_cast<int>(rows.size()) > o.top) rows.resize(static_cast<std::size_t>(o.top));
  if (o.run) run_rows(rows, o, !global.quiet);
  std::optional<std::filesystem::path> picture = o.picture;
  if (o.run && !picture) picture = "weir-out/sweep.svg";
  if (picture) draw(rows, *picture);
  if (o.output) write_file_atomically(*o.output, sweep_json(result, rows).dump(2) + "\n");
  if (global.json) {
    fmt::print("{}\n", sweep_json(result, rows).dump(2));
  } else {
    print_rows(result, rows);
    if (picture) fmt::print("{}\n", picture->string());
  }
}

}  // namespace

void set_limits(SweepRequest& request, const SweepLimits& limits, const Cluster& cluster) {
  if (!request.global_batch_size && request.microbatches.empty()) {
    throw UsageError("sweep needs --microbatches, --global-batch-size, or both");
  }
  request.memory_limit = limits.memory.empty() ? cluster.device.memory : parse_memory(limits.memory, "--memory-limit");
  if (limits.cluster) {
    request.devices = cluster.devices();
    std::erase_if(request.pp, [&](int k) { return k > cluster.devices(); });
    if (request.pp.empty())
      throw NoFeasiblePlan(fmt::format("{} has {} devices", limits.cluster->string(), cluster.devices()));
  }
}

void require_feasible(const SweepResult& result, const SweepRequest& request) {
  if (!result.plans.empty()) return;
  throw NoFeasiblePlan(result.smallest_misfit
                           ? fmt::format("no plan fits {}; the smallest ({}) needs {}",
                                         format_bytes(*request.memory_limit), summary(result.smallest_misfit->plan),
                                         format_bytes(result.smallest_misfit->forecast.peak_memory()))
                           : "no plan is possible for these options");
}

void add_sweep_command(CLI::App& app, GlobalOptions& global) {
  CLI::App* command = app.add_subcommand("sweep", "Search K, M, partition, schedule and re-materialisation");
  auto o = std::make_shared<SweepOptions>();
  add_plan_options(*command, o->common);
  command->add_option("-K,--pp", o->pp, "Ranks: 4, 1,2,4 or 1..8")->capture_default_str();
  command->add_option("-v,--vpp", o->vpp, "Stages a rank")->capture_default_str();
  command->add_option("-M,--microbatches", o->microbatches, "Micro-batches (default: all divisors of the mini-batch)");
  command
      ->add_option("-b,--micro-batch-size", o->micro_batch_size, "Samples a micro-batch, without --global-batch-size")
      ->capture_default_str();
  add_parallel_lists(*command, o->parallel);
  command->add_option("--global-batch-size", o->global_batch_size, "Samples a step")->check(CLI::Range(1, 1 << 20));
  command->add_option("--schedule", o->schedule, "Schedules, as gpipe,1f1b")->capture_default_str();
  command->add_option("--recompute", o->recompute, "none, selective, full, except-last, or several")
      ->capture_default_str();
  command->add_option("--memory-limit", o->memory_limit, "Memory of a device, as \"80 GiB\"");
  command->add_option("--costs", o->costs, "Costs file (default: built in)");
  command->add_option("--cluster", o->cluster, "Cluster file (default: this machine)");
  command->add_option("--top", o->top, "Rows to print")->capture_default_str();
  command->add_option("--threads", o->threads, "Threads of the search (0: all cores)")->capture_default_str();
  command->add_flag("--run", o->run, "Execute each row");
  command->add_option("--backend", o->backend, "Where --run executes: cpu or synthetic")->capture_default_str();
  command->add_option("--steps", o->steps, "Measured steps of --run")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--svg,--pdf", o->picture,
                      "Bubble and memory against M as a picture, data as CSV beside it (--run: weir-out/sweep.svg)");
  command->add_option("-o,--output", o->output, "Write weir.sweep/1 JSON");
  command->callback([o, &global] { run_sweep(*o, global); });
}

}  // namespace weir
