// Forecasts measured runs by the built-in costs of their machines.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/measured/measured_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <variant>

#include "costmodel/table/builtin.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/parallel.hpp"

namespace weir {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

// What the reading counts of the ranks' memory: of all of a rank, or without the process's own; of
// the first, or of the fullest.
double gib_of(const std::vector<RankMemory>& ranks, Bytes RankMemory::*bytes, MemoryReading reading,
              Bytes process) {
  if (reading == MemoryReading::fullest_device) process = Bytes(0);
  Bytes most{0};
  for (const RankMemory& rank : ranks) {
    most = std::max(most, rank.*bytes - process);
    if (reading == MemoryReading::reserved_first_rank) break;
  }
  return static_cast<double>(most.count()) / kGib;
}

Fit fit_of(Forecast f, Bytes limit) {
  f.memory_limit = limit;
  const Fits fits = f.fits();
  return fits == Fits::yes ? Fit::yes : fits == Fits::no ? Fit::no : Fit::maybe;
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
  const auto text_of = [](const std::string& name) {
    const auto found = compiled_tables().find(name + ".json");
    if (found == compiled_tables().end())
      throw InputError("measured runs", name, "no such file in tools/examples");
    return *found;
  };
  const auto [machine_file, machine] = text_of(cluster);
  const auto [stack_file, software] = text_of(stack);
  run.cluster = parse_cluster(machine, machine_file);
  run.cluster.stack = parse_stack(software, stack_file);
  const int node = run.cluster.devices_per_node;
  run.cluster.nodes = (run.plan.devices() + node - 1) / node;
}

void set_products(MeasuredRun& run, Fp8Recipe recipe) {
  run.plan.fp8 = recipe;
  run.cluster.stack.fp8 = recipe != Fp8Recipe::none;
  if (recipe == Fp8Recipe::none) return;
  // Other runs share the model as it was.
  auto model = std::make_shared<Model>(*run.model);
  set_fp8(*model, recipe);
  run.model = std::move(model);
}

Fp8Recipe bridge_recipe(const std::string& precision) {
  if (precision == "BF16") return Fp8Recipe::none;
  const bool of_rows = precision == "MXFP8" || precision == "FP8-MX";
  return of_rows ? Fp8Recipe::mxfp8 : Fp8Recipe::tensorwise;
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
  // What cannot be forecast carries its reason, and is counted.
  if (!result.refusal.empty()) return result;
  const Plan& plan = run.plan;
  // A shape that no generator makes is a reason too.
  ScheduleOrReason made = make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches});
  if (const auto* reason = std::get_if<std::string>(&made)) {
    result.refusal = *reason;
    return result;
  }
  const Costs costs =
      builtin_costs(*run.model, plan.seq_length, plan.dtype, run.cluster, {plan.split()});
  const ResolvedPlan resolved = derive(plan, *run.model, std::get<Schedule>(std::move(made)));
  Forecast f = forecast(resolved, costs, run.cluster, {.detail = ForecastDetail::ranking}).forecast;
  // Where the software was not named: the range of what it could have been.
  if (run.software) result.range = step_range(resolved, run.cluster, *run.software);
  // Read as the source read it: some count the process, some the allocator.
  result.step = f.step_time;
  const Bytes process = memory_rules(run.cluster, *resolved.part).process_overhead;
  const auto gib = [&](Bytes RankMemory::*bytes) {
    return gib_of(f.memory, bytes, run.reading, process);
  };
  result.memory_gib = gib(&RankMemory::peak);
  result.memory_least_gib = gib(&RankMemory::least);
  result.memory_most_gib = gib(&RankMemory::upper);
  // Last: it takes the forecast over.
  result.fit = fit_of(std::move(f), run.cluster.device.memory);
  return result;
}

std::vector<RunForecast> forecast_runs(std::span<const MeasuredRun> runs,
                                       const ForecastProgress& progress) {
  std::vector<RunForecast> forecasts(runs.size());
  std::mutex mutex;  // over `done`: counts are told in their order
  int done = 0;
  in_parallel(runs.size(), [&](std::size_t i) {
    forecasts[i] = forecast_run(runs[i]);
    const std::scoped_lock lock(mutex);
    if (progress) progress(++done, static_cast<int>(runs.size()));
  });
  return forecasts;
}

std::span<const MeasuredSource> measured_sources() {
  static constexpr std::array kSources{
      MeasuredSource{"playbook", "ultrascale_playbook_nanotron_h100.csv", read_playbook},
      MeasuredSource{"papers", "vtrain.csv", read_papers},
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
