// Forecasts measured runs by the built-in costs of their machines.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/measured/measured_run.hpp"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <variant>

#include "costmodel/table/builtin.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast.hpp"

namespace weir {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

// Bytes of a rank that the reading counts.
double gib_of(const RankMemory& rank, MemoryReading reading) {
  Bytes bytes = rank.peak;
  if (reading != MemoryReading::fullest_device)
    bytes -= rank.at_peak[static_cast<std::size_t>(MemoryKind::overhead)];
  return static_cast<double>(bytes.count()) / kGib;
}

double gib_of(const Forecast& forecast, MemoryReading reading) {
  if (forecast.memory.empty()) return 0;
  if (reading == MemoryReading::reserved_first_rank)
    return gib_of(forecast.memory.front(), reading);
  double most = 0;
  for (const RankMemory& rank : forecast.memory) most = std::max(most, gib_of(rank, reading));
  return most;
}

}  // namespace

std::string_view to_string(MemoryReading reading) {
  switch (reading) {
    case MemoryReading::reserved_first_rank:
      return "reserved on rank 0, GiB";
    case MemoryReading::fullest_device:
      return "taken of the fullest device, GiB";
    case MemoryReading::fullest_rank:
      return "reserved on the fullest rank, GiB";
  }
  return "";
}

void set_machine(MeasuredRun& run, const std::string& cluster, const std::string& stack) {
  const auto machine = compiled_tables().find(cluster + ".json");
  const auto software = compiled_tables().find(stack + ".json");
  if (machine != compiled_tables().end())
    run.cluster = parse_cluster(machine->second, machine->first);
  else
    run.unforeseen = fmt::format("tools/examples/clusters has no {}", cluster);
  run.cluster.name = cluster;
  const int node = run.cluster.devices_per_node;
  run.cluster.nodes = (run.plan.devices() + node - 1) / node;
  if (software != compiled_tables().end())
    run.cluster.stack = parse_stack(software->second, software->first);
  run.cluster.stack.name = stack;
}

void place_stages(MeasuredRun& run) {
  const auto begins = stage_boundaries(run.cluster.stack, *run.model, run.plan.stages());
  if (begins) {
    run.plan.boundaries = *begins;
  } else if (run.unforeseen.empty()) {
    run.unforeseen =
        fmt::format("{} cannot place {} stages", run.cluster.stack.name, run.plan.stages());
  }
}

RunForecast forecast_run(const MeasuredRun& run) {
  RunForecast result;
  result.refusal = run.unforeseen;
  if (!result.refusal.empty()) return result;
  const Plan& plan = run.plan;
  ScheduleOrReason made = make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches});
  if (const auto* reason = std::get_if<std::string>(&made)) {
    result.refusal = *reason;
    return result;
  }
  const Costs costs =
      builtin_costs(*run.model, plan.seq_length, plan.dtype, run.cluster, {plan.split()});
  const ResolvedPlan resolved = derive(plan, *run.model, std::get<Schedule>(std::move(made)));
  const Forecast f =
      forecast(resolved, costs, run.cluster, {.detail = ForecastDetail::ranking}).forecast;
  result.step = f.step_time;
  result.memory_gib = gib_of(f, run.reading);
  result.memory_least_gib = result.memory_most_gib = result.memory_gib;
  result.fit = f.peak_memory() <= run.cluster.device.memory ? Fit::yes : Fit::no;
  return result;
}

std::vector<RunForecast> forecast_runs(std::span<const MeasuredRun> runs) {
  std::vector<RunForecast> forecasts(runs.size());
  tbb::parallel_for(std::size_t{0}, runs.size(),
                    [&](std::size_t i) { forecasts[i] = forecast_run(runs[i]); });
  return forecasts;
}

std::span<const MeasuredSource> measured_sources() {
  static constexpr std::array kSources{
      MeasuredSource{"playbook", "ultrascale_playbook_nanotron_h100.csv", read_playbook},
      MeasuredSource{"bloom", "bigscience_a100_176b_3d.csv", read_bloom},
      MeasuredSource{"mlperf", "mlperf_gpt3_llama405b.csv", read_mlperf},
      MeasuredSource{"primus", "primus_schedules_amd.csv", read_primus},
      MeasuredSource{"torchtitan", "torchtitan.csv", read_torchtitan},
      MeasuredSource{"llm-foundry", "llm_foundry_mpt_fsdp.csv", read_llm_foundry},
      MeasuredSource{"sailor", "sailor_validation.csv", read_sailor},
      MeasuredSource{"megatron-bridge", "megatron_bridge_recipes.csv", read_megatron_bridge},
      MeasuredSource{"nemo", "nemo_2407_h100.csv", read_nemo},
      MeasuredSource{"dgx-cloud", "dgxc_h100.csv", read_dgx_cloud},
  };
  return kSources;
}

}  // namespace weir
