// Puts measured runs beside their forecasts and says which aims they reach.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/measured/cross_validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "tools/reproduce/measured/default_call.hpp"

namespace weir {
namespace {

SourceLine source_line(const MeasuredSource& source, const Bench& bench) {
  SourceLine line{std::string(source.name)};
  std::map<std::string, int> without;
  for (std::size_t i = 0; i < bench.runs.size(); ++i) {
    const MeasuredRun& run = bench.runs[i];
    if (run.source != source.name) continue;
    ++line.rows;
    line.failed += run.failed ? 1 : 0;
    line.unhealthy += run.unhealthy.empty() ? 0 : 1;
    // Why a row was not forecast is counted by reason: many share one.
    const std::string& why = bench.forecasts[i].refusal;
    if (why.empty()) {
      ++line.forecast;
    } else {
      ++without[why];
    }
  }
  for (const auto& [why, rows] : without) line.without.push_back(fmt::format("{}: {}", rows, why));
  return line;
}

void add_lines(const Bench& bench, std::span<const RunForecast> by_default,
               CrossValidation& whole) {
  for (const Judged& one : bench.times) {
    const PrintedStep& step = *bench.run(one).step;
    // The logarithms are of measured over forecast: the forecast is what is left of it.
    const double measured = step.seconds();
    whole.lines.push_back({&bench.run(one), false, step.printed.value,
                           step.printed_of(Seconds(measured * std::exp(-one.log_error))),
                           step.printed_of(Seconds(measured * std::exp(-one.log_left_out()))),
                           step.printed_of(by_default[one.run].step)});
  }
  for (const Judged& one : bench.memories) {
    const double measured = bench.run(one).memory_gib->value;
    whole.lines.push_back({&bench.run(one), true, measured, measured * std::exp(-one.log_error),
                           measured * std::exp(-one.log_left_out()),
                           by_default[one.run].memory_gib});
  }
}

std::vector<MeasuredRun> all_runs(const Publications& published, CrossValidation& whole) {
  std::vector<MeasuredRun> runs;
  for (const MeasuredSource& source : measured_sources()) {
    if (!published.has(std::string(source.table))) {
      whole.notes.push_back(fmt::format("{}: {} is not in the folder.", source.name, source.table));
      continue;
    }
    for (MeasuredRun& run : source.read(published)) {
      run.source = source.name;
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

void add_experts(const Publications& published, std::vector<MeasuredRun>& runs) {
  constexpr const char* kSource = "megatron-bridge-experts";
  if (!published.has("megatron_bridge_experts.csv")) return;
  for (MeasuredRun& run : read_megatron_bridge_experts(published)) {
    run.source = kSource;
    runs.push_back(std::move(run));
  }
}

}  // namespace

std::string JudgedLine::quantity() const {
  return is_memory ? fmt::format("memory, {}", to_string(run->reading)) : run->step->quantity;
}

CrossValidation cross_validate(const Publications& published, const ForecastProgress& progress) {
  CrossValidation whole;
  // Every published row, those that cannot be forecast among them.
  whole.runs = all_runs(published, whole);
  const Bench bench = bench_of(whole.runs, progress);
  for (const MeasuredSource& source : measured_sources())
    whole.sources.push_back(source_line(source, bench));
  // A source that is not here has no line.
  std::erase_if(whole.sources, [](const SourceLine& line) { return line.rows == 0; });
  // Mixtures of experts are of no group; of them only what the default call makes is told.
  std::vector<MeasuredRun> all = whole.runs;
  add_experts(published, all);
  const std::vector<RunForecast> by_default = forecast_runs(by_default_call(all), progress);
  DefaultTable table = default_table(all, by_default);
  whole.defaults = std::move(table.lines);
  whole.effects = factor_effects(factor_pairs(all, by_default), all);
  add_lines(bench, by_default, whole);
  // Times and memory apart: their levels are different things.
  add_groups(bench.times, false, whole.errors, whole.groups);
  add_groups(bench.memories, true, whole.errors, whole.groups);
  std::ranges::move(ratio_errors(bench.runs, bench.forecasts), std::back_inserter(whole.errors));
  std::ranges::move(table.errors, std::back_inserter(whole.errors));
  Aims aims(whole.aims);
  judge_sources(bench, published, whole.crashes, aims);
  judge_intervals(whole.groups, whole.errors, aims);
  judge_anchoring(whole.groups, aims);
  whole.notes.emplace_back(
      "Leaving the playbook's cluster out leaves out the only runs of nanotron too.");
  whole.notes.emplace_back(
      "Left out means out of levels: the factor that forecasts a group's runs is learnt on other "
      "clusters and other stacks. What a stack or a machine is said to do was read in sources, or "
      "fitted to the rows that its file names.");
  return whole;
}

std::string to_csv(const CrossValidation& whole) {
  std::string csv =
      "source,row,cluster,stack,model,quantity,published,forecast,left_out,by_default,error,"
      "left_out_error,"
      "devices,tp,pp,vpp,cp,dp,zero,micro_batch_size,microbatches\n";
  for (const JudgedLine& line : whole.lines) {
    const MeasuredRun& run = *line.run;
    const Plan& plan = run.plan;
    // Names of rows and models hold commas, so they are quoted.
    csv += fmt::format("{},\"{}\",{},{},\"{}\",\"{}\",{:.6g},{:.6g},{:.6g},{:.6g},{:.4f},{:.4f}",
                       run.source, run.row, run.cluster.name, run.cluster.stack.name,
                       run.model_name, line.quantity(), line.published, line.forecast,
                       line.left_out, line.by_default, line.error(), line.left_out_error());
    csv += fmt::format(",{},{},{},{},{},{},{},{},{}\n", plan.devices(), plan.tp, plan.pp, plan.vpp,
                       plan.cp, plan.dp, plan.zero, plan.micro_batch_size, plan.microbatches);
  }
  return csv;
}

}  // namespace weir
