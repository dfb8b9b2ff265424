// `weir simulate`: forecasts one plan.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast.hpp"
#include "sim/forecast_json.hpp"
#include "tools/app/builtin_accuracy.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/options.hpp"
#include "tools/weir/parallel_options.hpp"
#include "tools/weir/traced_plan.hpp"

namespace weir {
namespace {

void print_forecast(const ResolvedPlan& loaded, const Forecast& f) {
  fmt::print("{}: step {} ({}{}), lower bound {}, bubble {:.1f} %\n", summary(loaded.plan),
             format_duration(f.step_time), to_string(f.basis),
             f.interval ? fmt::format(", 90 % {} to {}", format_duration(f.interval->low),
                                      format_duration(f.interval->high))
                        : std::string(", no interval"),
             format_duration(f.lower_bound), f.metrics.bubble_fraction * 100);
  if (f.samples_per_s) fmt::print("{:.4g} samples/s", *f.samples_per_s);
  if (f.tokens_per_s) fmt::print(", {:.4g} tokens/s", *f.tokens_per_s);
  if (f.model_tflops_per_device)
    fmt::print(", {:.4g} model TFLOP/s a device", *f.model_tflops_per_device);
  fmt::print("\n{:>4} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>9}\n", "rank", "busy",
             "fill", "drain", "imbalance", "comm.", "host", "optimizer", "peak memory",
             "in flight");
  for (std::size_t r = 0; r < f.metrics.ranks.size(); ++r) {
    const RankMetrics& m = f.metrics.ranks[r];
    const auto d = [](Nanoseconds t) { return format_duration(to_seconds(t)); };
    fmt::print("{:>4} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>9}\n", r, d(m.busy),
               d(m.idle.fill), d(m.idle.drain), d(m.idle.imbalance), d(m.idle.communication),
               d(m.idle.host), d(m.idle.optimizer), format_bytes(f.memory[r].peak),
               f.peak_in_flight[r]);
  }
  if (f.distribution) {
    fmt::print("jitter: mean {}, median {}, 90 % of steps between {} and {} ({} samples)\n",
               format_duration(f.distribution->mean), format_duration(f.distribution->median),
               format_duration(f.distribution->low), format_duration(f.distribution->high),
               f.distribution->samples);
  }
  if (f.without_barrier)
    fmt::print("without a barrier between steps: {}\n", format_duration(*f.without_barrier));
  if (f.goodput) {
    const auto& [r, checkpoints] = *f.goodput;
    fmt::print(
        "checkpoint every {} steps ({}): goodput {:.2f} %{}; optimum {}, Daly {}, Young {}\n",
        checkpoints.steps, format_duration(checkpoints.interval), checkpoints.goodput * 100,
        f.samples_per_s ? fmt::format(", {:.4g} samples/s", *f.samples_per_s * checkpoints.goodput)
                        : "",
        format_duration(best_interval(r)), format_duration(daly_interval(r)),
        format_duration(young_interval(r)));
  }
  for (const std::string& warning : f.warnings) fmt::print(stderr, "weir: {}\n", warning);
}

struct FailureOptions {
  std::string mtbf, checkpoint, restart, downtime = "0s";
};

Seconds duration_option(const std::string& text, const char* option) {
  const auto value = parse_duration(text);
  if (!value)
    throw UsageError(fmt::format("{} {}: expected a duration, as 30s, 5min or 3h", option, text));
  return *value;
}

std::optional<Reliability> reliability(const FailureOptions& o) {
  if (o.mtbf.empty() && o.checkpoint.empty() && o.restart.empty()) return std::nullopt;
  if (o.mtbf.empty() || o.checkpoint.empty() || o.restart.empty()) {
    throw UsageError("goodput needs all of --mtbf, --checkpoint-cost and --restart-cost");
  }
  const Reliability r{
      duration_option(o.mtbf, "--mtbf"), duration_option(o.checkpoint, "--checkpoint-cost"),
      duration_option(o.restart, "--restart-cost"), duration_option(o.downtime, "--downtime")};
  if (r.mtbf <= Seconds(0))
    throw UsageError(fmt::format("--mtbf {}: expected more than 0", o.mtbf));
  return r;
}

// "2=1.5": rank 2 computes 1.5 times slower.
std::map<std::int32_t, double> parse_stragglers(const std::vector<std::string>& texts, int ranks) {
  std::map<std::int32_t, double> stragglers;
  for (const std::string& text : texts) {
    std::int32_t rank = -1;
    double factor = 0;
    const char* const last = text.data() + text.size();
    const auto [equals, error] = std::from_chars(text.data(), last, rank);
    const bool named = error == std::errc() && equals != last && *equals == '=';
    const auto [end, bad] =
        named ? std::from_chars(equals + 1, last, factor) : std::from_chars_result{};
    if (!named || bad != std::errc() || end != last || !(factor > 0 && factor <= 1e6)) {
      throw UsageError(fmt::format("--straggler {}: expected RANK=FACTOR, as 2=1.5", text));
    }
    if (rank < 0 || rank >= ranks) {
      throw UsageError(fmt::format("--straggler {}: the plan has ranks 0 to {}", text, ranks - 1));
    }
    if (!stragglers.emplace(rank, factor).second)
      throw UsageError(fmt::format("--straggler {}: given twice", text));
  }
  return stragglers;
}

}  // namespace

void add_simulate_command(CLI::App& app, GlobalOptions& global) {
  struct Options {
    std::filesystem::path plan, output;
    std::optional<std::filesystem::path> costs, cluster;
    std::string memory_limit, transfers = "buffered";
    std::optional<int> samples;
    bool no_barrier = false;
    ParallelOptions parallel;
    FailureOptions failures;
    std::vector<std::string> stragglers;
  };
  CLI::App* command = app.add_subcommand("simulate", "Forecast one plan");
  auto o = std::make_shared<Options>();
  command->add_option("plan", o->plan, "Plan file")->required();
  command->add_option("--costs", o->costs, "Costs file (default: built in)");
  command->add_option("--cluster", o->cluster, "Cluster file (default: this machine)");
  command->add_option("--memory-limit", o->memory_limit, "Memory of a device, as \"80 GiB\"");
  command
      ->add_option("--transfers", o->transfers, "buffered, rendezvous, or batched as NCCL groups")
      ->capture_default_str();
  command
      ->add_option("--samples", o->samples,
                   "Steps drawn from measured jitter (with --seed): a distribution")
      ->check(CLI::Range(1, 1'000'000));
  command->add_flag("--no-barrier", o->no_barrier,
                    "Also the time of a step that the next one may overlap");
  add_parallel_options(*command, o->parallel);
  command->add_option("--mtbf", o->failures.mtbf,
                      "Mean time between failures of the whole job, as 3h");
  command->add_option("--checkpoint-cost", o->failures.checkpoint,
                      "Time that training stands still for a checkpoint");
  command->add_option("--restart-cost", o->failures.restart,
                      "Time from a restart until training goes on");
  command
      ->add_option("--downtime", o->failures.downtime,
                   "Time from a failure until the restart begins")
      ->capture_default_str();
  command->add_option("--straggler", o->stragglers,
                      "RANK=FACTOR: this rank computes so many times slower (repeatable)");
  command->add_option("-o,--output", o->output, "Folder for forecast.json and the predicted trace");
  command->callback([o, &global] {
    ResolvedPlan loaded = load_plan(o->plan);
    Plan plan = loaded.plan;
    apply(o->parallel, plan);
    if (const auto misfit = cannot_split(loaded.model, plan.seq_length, plan.split()))
      throw InputError(o->plan.string(), misfit->key, misfit->reason);
    if (plan != loaded.plan)
      loaded = derive(std::move(plan), std::move(loaded.model), std::move(loaded.schedule));
    const auto failures = reliability(o->failures);
    Cluster cluster = cluster_or_host(o->cluster);
    cluster.stragglers = parse_stragglers(o->stragglers, loaded.plan.pp);
    ForecastOptions options;
    options.transfers = parse_transfers(o->transfers);
    if (o->samples) options.jitter = JitterRequest{*o->samples, global.seed};
    options.without_barrier = o->no_barrier;
    if (o->cluster) require_devices(loaded.plan, cluster, *o->cluster);
    const Costs costs = costs_or_builtin(o->costs, loaded.model, loaded.plan, cluster);
    const std::string& device = cluster.device.name;
    const bool builtin = costs.basis == Basis::builtin;
    ForecastResult result = forecast(loaded, costs, cluster, options);
    if (failures) {
      result.forecast.goodput =
          GoodputForecast{*failures, best_checkpoints(result.forecast.step_time, *failures)};
    }
    if (!o->memory_limit.empty()) {
      result.forecast.memory_limit = parse_memory(o->memory_limit, "--memory-limit");
    } else if (o->cluster) {
      result.forecast.memory_limit = cluster.device.memory;
    }
    std::string json;
    if (global.json || !o->output.empty()) {
      json = to_json(result.forecast);
      if (builtin) json = with_accuracy(nlohmann::ordered_json::parse(json), device).dump(2);
    }
    if (!o->output.empty()) {
      write_file_atomically(o->output / "forecast.json", json + "\n");
      save_traced_plan(result.trace, loaded, o->plan.parent_path(), o->output, "predicted");
    }
    if (global.json) {
      fmt::print("{}\n", json);
    } else {
      print_forecast(loaded, result.forecast);
      if (builtin) fmt::print("{}\n", describe(builtin_accuracy(device), device));
      if (!o->output.empty()) fmt::print("{}\n", o->output.string());
    }
    if (!result.forecast.fits()) {
      throw NoFeasiblePlan(fmt::format("{} needs {} on its fullest device, the limit is {}",
                                       o->plan.string(),
                                       format_bytes(result.forecast.peak_memory()),
                                       format_bytes(*result.forecast.memory_limit)));
    }
  });
}

}  // namespace weir
