// Machines and software as if nobody had seen a source, and how its runs then come out.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/measured/default_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "plan/job/assumed_stack.hpp"
#include "plan/job/layout_words.hpp"
#include "plan/job/left_out.hpp"
#include "plan/text/strict_json.hpp"
#include "tools/reproduce/known_software.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

// Its recipes say whether graphs are captured and experts' exchanges overlapped.
constexpr std::string_view kWhoseJobsSay = "megatron-core";

std::string text_without(const std::string& name, const std::string& source) {
  const std::string file = name + ".json";
  return without_source(parse_json(compiled_tables().at(file), file), source).dump();
}

// All that is known but the run's own: what runs a plan may be none of them.
class Software {
 public:
  using Known = std::shared_ptr<const std::vector<Stack>>;
  [[nodiscard]] Known of(const MeasuredRun& run) {
    const std::string& own = run.cluster.stack.name;
    Known& known = known_[{run.source, own, bytes_per_element(run.plan.dtype)}];
    if (known) return known;
    std::vector<Stack> stacks = known_software(run.plan.dtype, run.source);
    std::erase_if(stacks, [&](const Stack& stack) { return stack.name == own; });
    known = std::make_shared<const std::vector<Stack>>(std::move(stacks));
    return known;
  }

 private:
  std::map<std::tuple<std::string, std::string, std::int64_t>, Known> known_;
};

MeasuredRun default_run(const MeasuredRun& run, Software& software) {
  MeasuredRun result = run;
  // The machine and the software, both without what was read of this source.
  result.software = software.of(run);
  Cluster machine = parse_cluster(text_without(run.cluster.name, run.source), run.cluster.name);
  machine.nodes = run.cluster.nodes;
  machine.inter.bandwidth = run.cluster.inter.bandwidth;  // some sources state another
  const std::string name(kDefaultStack);
  Stack stack = parse_stack(text_without(name, run.source), name);
  // Assumed: the forecast is told that nobody named it.
  set_assumed(stack);
  // What the job says itself, as a user would.
  const Stack& own = run.cluster.stack;
  stack.fp8 = own.fp8;
  stack.empty_stages = own.empty_stages;
  if (own.name == kWhoseJobsSay) {
    stack.time.launch = own.time.launch;
  }
  machine.stack = std::move(stack);
  result.cluster = std::move(machine);
  return result;
}

// The runs of a source with what was forecast of them.
struct Of {
  const MeasuredRun* run;
  const RunForecast* forecast;

  [[nodiscard]] bool healthy() const { return run->step && run->unhealthy.empty(); }
  [[nodiscard]] double log_error() const {
    return std::log(run->step->seconds() / forecast->step.count());
  }
  [[nodiscard]] StepScales scales() const {
    return scales_beside(forecast->step, *forecast->range);
  }
  // Its error as a share of what may be expected to that side.
  [[nodiscard]] double score() const {
    const double error = log_error();
    return error > 0 ? error / scales().above : -error / scales().below;
  }
};

void set_errors(const std::vector<double>& logs, DefaultLine& line) {
  std::vector<double> errors, sizes;
  for (const double log : logs) {
    errors.push_back(std::exp(-log) - 1);
    sizes.push_back(std::abs(errors.back()));
  }
  line.rows = static_cast<int>(logs.size());
  if (logs.empty()) return;
  line.median = median(sizes);
  line.p95 = quantile(sizes, 0.95);
  line.bias = median(errors);
}

void set_grids(const std::vector<Of>& rows, DefaultLine& line) {
  constexpr std::size_t kLeast = 4;  // layouts, as there is little to choose among fewer
  std::map<std::string, std::vector<Layout>> grids;
  // Only healthy runs: an unhealthy one is not what the layout does.
  for (const Of& one : rows) {
    if (one.healthy())
      grids[layout_grid(*one.run)].push_back(
          {one.run->step->seconds(), one.forecast->step.count(), one.forecast->fit});
  }
  std::vector<double> taus, regrets;
  for (const auto& [name, layouts] : grids) {
    // Fewer layouts than this leave nothing to choose among.
    if (layouts.size() < kLeast) continue;
    std::vector<MeasuredAndForecast> times;
    for (const Layout& one : layouts) times.push_back({one.measured, one.forecast});
    taus.push_back(ordered_pairs(times, 0).tau());
    regrets.push_back(regret_of_sure(layouts));
  }
  line.grids = static_cast<int>(taus.size());
  if (taus.empty()) return;
  line.tau = median(taus);
  line.worst_regret = largest(regrets);
  line.regret = median(std::move(regrets));
}

// How far each cluster's and software's runs are off, in shares of what may be expected where the
// software is not known.
void add_errors(const std::string& source, const std::vector<Of>& rows,
                std::vector<GroupErrors>& errors) {
  // A group is a cluster's and a software's runs: they share what was not known of either.
  std::map<std::pair<std::string, std::string>, std::vector<const Of*>> groups;
  for (const Of& one : rows) {
    if (one.healthy() && one.forecast->range)
      groups[{one.run->cluster.name, one.run->cluster.stack.name}].push_back(&one);
  }
  for (const auto& [key, group] : groups) {
    std::vector<double> logs, scores;
    for (const Of* one : group) {
      logs.push_back(one->log_error());
      scores.push_back(one->score());
    }
    errors.push_back({source, key.first, key.second, BuiltinQuantity::unnamed_step,
                      static_cast<int>(group.size()), median(std::move(logs)),
                      spaced_quantiles(std::move(scores))});
  }
}

// What is left of the errors in ratios of two runs of one cluster and software, by how far their
// plans are apart. `source`: empty for runs by their own software.
void add_ratios(const std::string& source, const std::vector<Of>& rows, SoftwareKnown known,
                std::vector<GroupErrors>& errors) {
  using Key = std::tuple<std::string, std::string, BuiltinQuantity>;
  std::map<Key, std::vector<double>> groups;
  std::vector<const Of*> healthy;
  std::vector<LayoutWords> words;
  for (const Of& one : rows) {
    // Words of a layout are compared once for each pair: they are made here for all.
    if (!one.healthy()) continue;
    healthy.push_back(&one);
    words.push_back(layout_words(one.run->plan, layout_grid(*one.run)));
  }
  for (std::size_t i = 0; i < healthy.size(); ++i) {
    const Cluster& on = healthy[i]->run->cluster;
    for (std::size_t j = 0; j < i; ++j) {
      // Every pair once, and only within one cluster and software: its level cancels.
      const Cluster& other = healthy[j]->run->cluster;
      const BuiltinQuantity quantity = measured_at(distance(words[i], words[j]), known);
      // groups.cpp has those of another job already.
      if (quantity == BuiltinQuantity::anchored_step) continue;
      if (on.name == other.name && on.stack.name == other.stack.name)
        groups[{on.name, on.stack.name, quantity}].push_back(
            std::abs(healthy[i]->log_error() - healthy[j]->log_error()));
    }
  }
  for (auto& [key, logs] : groups) {
    const auto& [cluster, stack, quantity] = key;
    const int count = static_cast<int>(logs.size());
    errors.push_back(
        {source, cluster, stack, quantity, count, 0, spaced_quantiles(std::move(logs))});
  }
}

// What other sources' runs say of this one's, and how wide that is.
void set_interval(const std::vector<Of>& rows, std::span<const GroupErrors> errors,
                  DefaultLine& line) {
  const auto interval = default_interval(errors, BuiltinQuantity::unnamed_step, line.source);
  if (!interval) return;
  std::vector<double> widths;
  for (const Of& one : rows) {
    if (!one.healthy() || !one.forecast->range) continue;
    const auto [below, above] = one.scales();
    widths.push_back(std::exp(interval->half_width * (below + above)));
    ++line.covered.of;
    line.covered.part += one.score() <= interval->half_width ? 1 : 0;
  }
  if (!widths.empty()) line.width = median(std::move(widths));
}

void set_verdicts(const std::vector<Of>& rows, DefaultLine& line) {
  for (const Of& one : rows) {
    Proportion& share = one.run->failed ? line.failed_called_fitting : line.ran_called_no;
    const Fit bad = one.run->failed ? Fit::yes : Fit::no;
    ++share.of;
    share.part += one.forecast->fit == bad ? 1 : 0;
  }
}

}  // namespace

std::vector<MeasuredRun> by_default_call(std::span<const MeasuredRun> runs) {
  std::vector<MeasuredRun> all;
  all.reserve(runs.size());
  Software software;
  for (const MeasuredRun& run : runs)
    all.push_back(run.unforeseen.empty() ? default_run(run, software) : run);
  return all;
}

std::string layout_grid(const MeasuredRun& run) {
  const Plan& plan = run.plan;
  return fmt::format("{} {} {} on {} x {} B={} s={}{}", run.source, run.model_name,
                     to_string(plan.dtype), plan.devices(), run.cluster.name,
                     plan.global_batch_size(), plan.seq_length,
                     run.cluster.stack.fp8 ? " fp8" : "");
}

double regret_of_sure(std::span<const Layout> layouts) {
  const Layout* chosen = nullptr;
  double best = 0;
  for (const Layout& one : layouts) {
    if (best == 0 || one.measured < best) best = one.measured;
    if (one.fit == Fit::yes && (chosen == nullptr || one.forecast < chosen->forecast))
      chosen = &one;
  }
  // Where none is sure to fit, the fastest of those that may is what is left.
  for (const Layout& one : layouts) {
    if (chosen == nullptr || (chosen->fit != Fit::yes && one.forecast < chosen->forecast))
      chosen = &one;
  }
  return chosen == nullptr ? 0 : chosen->measured / best - 1;
}

std::vector<GroupErrors> ratio_errors(std::span<const MeasuredRun> runs,
                                      std::span<const RunForecast> forecasts) {
  std::vector<Of> rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (forecasts[i].refusal.empty()) rows.push_back({&runs[i], &forecasts[i]});
  }
  std::vector<GroupErrors> errors;
  add_ratios("", rows, SoftwareKnown::named, errors);
  return errors;
}

DefaultTable default_table(std::span<const MeasuredRun> runs,
                           std::span<const RunForecast> forecasts) {
  DefaultTable table;
  std::vector<std::string> sources;  // in their order
  std::map<std::string, std::vector<Of>> by_source;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!forecasts[i].refusal.empty()) continue;
    if (!by_source.contains(runs[i].source)) sources.push_back(runs[i].source);
    by_source[runs[i].source].push_back({&runs[i], &forecasts[i]});
  }
  // Errors first of all sources: a line's interval needs those of the others.
  for (const std::string& source : sources) {
    add_errors(source, by_source[source], table.errors);
    add_ratios(source, by_source[source], SoftwareKnown::by_default, table.errors);
  }
  for (const std::string& source : sources) {
    DefaultLine line{source};
    const std::vector<Of>& rows = by_source[source];
    std::vector<double> logs;
    for (const Of& one : rows) {
      if (one.healthy()) logs.push_back(one.log_error());
    }
    set_errors(logs, line);
    set_interval(rows, table.errors, line);
    set_grids(rows, line);
    set_verdicts(rows, line);
    table.lines.push_back(line);
  }
  return table;
}

}  // namespace weir
