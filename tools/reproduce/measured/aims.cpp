// The aims of each source's runs.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/measured/aims.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/reproduce/reproduction.hpp"
#include "tools/reproduce/zero_bubble.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

double median_of(std::vector<double> values) { return median(std::move(values)); }

void judge_playbook(const Bench& bench, Aims& aims) {
  const Picks pipelined = [](const MeasuredRun& run) {
    return run.source == "playbook" && run.plan.pp > 1 && run.plan.tp <= 8;
  };
  const std::vector<Judged> rows = picked(bench, bench.times, pipelined);
  const std::string what = "playbook, plausible, pipelined, TP <= 8: time";
  aims.errors(what, rows, 0.15);
  aims.anchored(what, rows, same_group, "median |error|", median_of, 0.08);
  aims.anchored(
      what, rows, same_group, "75th percentile of |error|",
      [](std::vector<double> e) { return quantile(std::move(e), 0.75); }, 0.20);
  int off = 0;
  for (const Judged& one : rows) off += std::abs(one.log_left_out()) > std::log(2.0) ? 1 : 0;
  aims.add({what, "left out", "rows off by more than 2x", static_cast<int>(rows.size()),
            static_cast<double>(off), std::nullopt});
}

void judge_playbook_memory(const Bench& bench, Aims& aims) {
  // `alone`: rows whose layers are not divided; `split`: the others.
  const auto pick = [&](bool alone, bool split) {
    return picked(bench, bench.memories, [&](const MeasuredRun& run) {
      return run.source == "playbook" && (run.plan.tp == 1 ? alone : split);
    });
  };
  aims.errors("playbook, TP 1: memory", pick(true, false), 0.06);
  const std::vector<Judged> split = pick(false, true);
  int inside = 0;
  double widest = 0;
  // Within the stated band, and how wide the band is: one without the other says nothing.
  for (const Judged& one : split) {
    const RunForecast& f = bench.forecasts[one.run];
    const double measured = bench.run(one).memory_gib->value;
    inside += measured >= f.memory_least_gib && measured <= f.memory_most_gib ? 1 : 0;
    widest = std::max(widest, f.memory_most_gib / f.memory_least_gib);
  }
  const int count = static_cast<int>(split.size());
  AimLine share{"playbook, TP > 1: memory", "as it comes", "inside the stated band", count};
  AimLine width{"playbook, TP > 1: memory", "as it comes", "widest band, most over least", count};
  if (count > 0) {
    share.figure = 1.0 * inside / count;
    width.figure = widest;
  }
  share.aim = 0.90;
  share.at_least = true;
  width.aim = 1.6;
  aims.add(share);
  aims.add(width);
  aims.errors("playbook, all: memory", pick(true, true), 0.10);
}

constexpr double kRoomGib = 60;  // as the table prints memory

// A failed run crashed, and did not run out of memory, where the runs next to it had room: the same
// model, tp and pp, and of the smaller micro-batches that ran the largest, all below 60.
bool had_room(const MeasuredRun& failed, const std::vector<MeasuredRun>& runs) {
  int nearest = 0;
  double most = 0;
  for (const MeasuredRun& run : runs) {
    const bool neighbour = run.source == failed.source && !run.failed && run.memory_gib &&
                           run.model_name == failed.model_name && run.plan.tp == failed.plan.tp &&
                           run.plan.pp == failed.plan.pp &&
                           run.plan.micro_batch_size < failed.plan.micro_batch_size;
    if (!neighbour || run.plan.micro_batch_size < nearest) continue;
    if (run.plan.micro_batch_size > nearest) most = 0;
    nearest = run.plan.micro_batch_size;
    most = std::max(most, run.memory_gib->value);
  }
  return nearest > 0 && most < kRoomGib;
}

// Nor did it where another run of the same micro-batch had room; and software that leaves stages
// empty failed with them whatever they held.
bool crashed_otherwise(const MeasuredRun& failed, const std::vector<MeasuredRun>& runs) {
  const std::vector<int>& cuts = failed.plan.boundaries;
  const bool empty =
      std::ranges::adjacent_find(cuts) != cuts.end() ||
      (!cuts.empty() &&
       (cuts.front() == 0 || cuts.back() == static_cast<int>(failed.model->layers.size())));
  return empty || std::ranges::any_of(runs, [&](const MeasuredRun& run) {
           return run.source == failed.source && run.memory_gib &&
                  run.model_name == failed.model_name && run.plan.tp == failed.plan.tp &&
                  run.plan.pp == failed.plan.pp &&
                  run.plan.micro_batch_size == failed.plan.micro_batch_size &&
                  run.memory_gib->value < kRoomGib;
         });
}

void judge_fits(const Bench& bench, std::vector<std::string>& crashes, Aims& aims) {
  std::map<Fit, int> ran, failed, without_crashes;
  for (std::size_t i = 0; i < bench.runs.size(); ++i) {
    const MeasuredRun& run = bench.runs[i];
    const RunForecast& f = bench.forecasts[i];
    if (run.source != "playbook" || !f.refusal.empty()) continue;
    // Neighbours with smaller micro-batches had room: it crashed, which is no matter of memory.
    if (run.failed && f.fit == Fit::yes && had_room(run, bench.runs)) {
      crashes.push_back(run.row);
      continue;
    }
    ++(run.failed ? failed : ran)[f.fit];
    // Counted a second time without all that failed for another reason.
    if (run.failed && !(f.fit == Fit::yes && crashed_otherwise(run, bench.runs)))
      ++without_crashes[f.fit];
  }
  const auto total = [](const std::map<Fit, int>& counts) {
    int sum = 0;
    for (const auto& [fit, count] : counts) sum += count;
    return sum;
  };
  const auto share = [&](const std::string& what, int part, int of, double aim, bool at_least) {
    AimLine line{what, "as it comes", "share", of};
    if (of > 0) line.figure = 1.0 * part / of;
    line.aim = aim;
    line.at_least = at_least;
    aims.add(line);
  };
  share("playbook, runs that ran: fits", ran[Fit::yes], total(ran), 0.90, true);
  share("playbook, runs that ran: does not fit", ran[Fit::no], total(ran), 0.02, false);
  share("playbook, runs that failed: fits (crashes apart)", failed[Fit::yes], total(failed), 0.05,
        false);
  AimLine others{"playbook, runs that failed: fits (all crashes apart)", "as it comes", "share",
                 total(without_crashes)};
  if (others.rows > 0) others.figure = 1.0 * without_crashes[Fit::yes] / others.rows;
  aims.add(others);
  share("playbook, all: may not fit", ran[Fit::maybe] + failed[Fit::maybe],
        total(ran) + total(failed), 0.15, false);
}

std::map<std::string, std::vector<Judged>> grids_of(const std::vector<Judged>& rows,
                                                    std::size_t least) {
  std::map<std::string, std::vector<Judged>> grids;
  for (const Judged& one : rows) {
    if (!one.grid.empty()) grids[one.grid].push_back(one);
  }
  std::erase_if(grids, [&](const auto& grid) { return grid.second.size() < least; });
  return grids;
}

std::vector<Judged> joined(const std::map<std::string, std::vector<Judged>>& grids) {
  std::vector<Judged> all;
  for (const auto& [grid, rows] : grids) all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

std::vector<MeasuredAndForecast> times_of(const Bench& bench, const std::vector<Judged>& rows) {
  std::vector<MeasuredAndForecast> times;
  for (const Judged& one : rows)
    times.push_back({bench.run(one).step->seconds(), bench.forecasts[one.run].step.count()});
  return times;
}

void judge_bloom(const Bench& bench, Aims& aims) {
  constexpr std::size_t kLeast = 5;
  // A grid of few layouts leaves nothing to choose.
  const auto grids = grids_of(picked(bench, bench.times, from("bloom")), kLeast);
  const std::vector<Judged> rows = joined(grids);
  const std::vector<Judged> memories =
      joined(grids_of(picked(bench, bench.memories, from("bloom")), kLeast));
  const std::string what = "BLOOM's grids of 5 rows or more";
  aims.errors(what + ": time", rows, std::nullopt);
  // Anchored on another run of the same grid: what a user measures first.
  aims.anchored(what + ": time", rows, same_grid, "median |error|", median_of, 0.04);
  aims.anchored(what + ": memory", memories, same_grid, "median |error|", median_of, 0.08);
  OrderedPairs pairs;
  double worst = 0;
  int among_three = 0;
  // Each grid by itself: its best layout, and what choosing by the forecast would cost.
  for (const auto& [grid, of_grid] : grids) {
    const std::vector<MeasuredAndForecast> times = times_of(bench, of_grid);
    const OrderedPairs found = ordered_pairs(times, 0.08);
    among_three += place_of_best(times) <= 3 ? 1 : 0;
    pairs.agreeing += found.agreeing;
    pairs.pairs += found.pairs;
    worst = std::max(worst, regret(times));
  }
  AimLine tau{what, "as it comes", "tau over pairs more than 8 % apart", pairs.pairs};
  AimLine most{what, "as it comes", "largest regret in measured time",
               static_cast<int>(grids.size())};
  // Without pairs or grids there is no figure, and no aim reached.
  if (pairs.pairs > 0) tau.figure = pairs.tau();
  if (!grids.empty()) most.figure = worst;
  tau.aim = 0.8;
  tau.at_least = true;
  most.aim = 0.05;
  aims.add(tau);
  aims.add(most);
  AimLine three{what, "anchored", "grids whose best is among the first three", most.rows};
  if (!grids.empty()) three.figure = 1.0 * among_three / most.rows;
  three.aim = 1;
  three.at_least = true;
  aims.add(three);
  const std::vector<Judged> all = picked(bench, bench.times, from("bloom"));
  aims.errors("BLOOM, all: time (best peer .077)", all, 0.077);
  aims.errors("BLOOM, all: memory (best peer .13)", picked(bench, bench.memories, from("bloom")),
              0.13);
}

void judge_mlperf(const Bench& bench, Aims& aims) {
  const std::vector<Judged> rows = picked(bench, bench.times, from("mlperf"));
  // One M as anchor and the others as what is asked for.
  const MayAnchor other_m = [&](const Judged& a, const Judged& b) {
    return same_grid(a, b) && bench.plan(a).microbatches != bench.plan(b).microbatches;
  };
  const std::string what = "MLPerf, one M as anchor, every other M of that machine";
  aims.anchored(what, rows, other_m, "median |error|", median_of, 0.015);
  // The worst over all anchors: nobody knows which one a user has.
  double worst = 0;
  for (const auto& list : anchored_log_errors(rows, other_m)) {
    for (const double error : list) worst = std::max(worst, relative_error(error));
  }
  AimLine line{what, "anchored", "worst |error| over all anchors", static_cast<int>(rows.size())};
  if (!rows.empty()) line.figure = worst;
  line.aim = 0.04;
  aims.add(line);
  aims.errors("MLPerf, no anchor", rows, std::nullopt);
}

void judge_primus(const Bench& bench, Aims& aims) {
  const std::vector<Judged> times = picked(bench, bench.times, from("primus"));
  const std::vector<Judged> memories = picked(bench, bench.memories, from("primus"));
  std::vector<MeasuredAndForecast> bytes;
  for (const Judged& one : memories)
    bytes.push_back({bench.run(one).memory_gib->value, bench.forecasts[one.run].memory_gib});
  const auto order = [&](const std::string& what, const OrderedPairs& pairs) {
    AimLine line{what, "as it comes", "pairs more than 2.5 % apart in the right order",
                 pairs.pairs};
    if (pairs.pairs > 0) line.figure = 1.0 * pairs.agreeing / pairs.pairs;
    line.aim = 1;
    line.at_least = true;
    aims.add(line);
  };
  order("Primus, six schedules: throughput", ordered_pairs(times_of(bench, times), 0.025));
  order("Primus, six schedules: memory", ordered_pairs(bytes, 0.025));
  aims.anchored("Primus, six schedules: time", times, same_grid, "worst |error|", largest, 0.05);
  aims.anchored("Primus, six schedules: memory", memories, same_grid, "worst |error|", largest,
                0.08);
}

void judge_sharded(const Bench& bench, Aims& aims) {
  const std::vector<Judged> rows = picked(bench, bench.times, [](const MeasuredRun& run) {
    return (run.source == "torchtitan" || run.source == "llm-foundry") && run.plan.devices() >= 8 &&
           run.plan.devices() <= 64;
  });
  const std::string what = "torchtitan and llm-foundry, 8 to 64 devices: time";
  aims.errors(what, rows, 0.12);
  aims.anchored(what, rows, same_group, "median |error|", median_of, 0.06);
}

void judge_sailor(const Bench& bench, Aims& aims) {
  const std::vector<Judged> rows = picked(bench, bench.times, from("sailor"));
  aims.errors("GH200 with stated stages: time", rows, 0.10);
  aims.errors("GH200 with stated stages: memory", picked(bench, bench.memories, from("sailor")),
              0.08);
  aims.anchored("GH200 with stated stages: time", rows, same_group, "median |error|", median_of,
                0.05);
}

void judge_vendors(const Bench& bench, Aims& aims) {
  const std::vector<Judged> rows = picked(bench, bench.times, from("megatron-bridge"));
  aims.errors("Megatron-Bridge, Llama rows with a known recipe: time", rows, 0.12);
  const MayAnchor other_model = [&](const Judged& a, const Judged& b) {
    return a.cluster == b.cluster && bench.run(a).model_name != bench.run(b).model_name;
  };
  aims.anchored("Megatron-Bridge, by another model's row on the same device", rows, other_model,
                "median |error|", median_of, 0.08);
}

// The papers' own cases, which have no group to be left out of: nothing is fitted to their rows
// but what each case says.
void judge_papers(const Publications& published, Aims& aims) {
  struct Paper {
    const char *name, *table, *rows, *what;
    double mean, worst;
  };
  for (const Paper& paper : {
           Paper{"builtin", "vtrain.csv", "vTrain", "vTrain, p > 1: time", 0.06, 0},
           Paper{"zero-bubble-throughput", "zero-bubble.csv", "", "Zero Bubble: throughput", 0.03,
                 0},
           Paper{"builtin", "korthikanti-steps.csv", "Korthikanti", "Korthikanti: steps", 0.02,
                 0.04},
       }) {
    // A table that was not published here has no aims.
    if (!published.has(paper.table)) continue;
    for (const ReproductionCase& c : reproduction_cases()) {
      if (c.name != paper.name) continue;
      std::vector<double> errors;
      for (const ReproductionLine& line : c.run(published).lines) {
        // Rows without a pipeline taught vTrain's constants.
        if (line.row.starts_with(paper.rows) && !line.row.ends_with(" p=1"))
          errors.push_back(std::abs(line.error()));
      }
      const int count = static_cast<int>(errors.size());
      if (count == 0) continue;
      aims.add({paper.what, "as it comes", "mean |error|", count, mean(errors), paper.mean});
      if (paper.worst > 0)
        aims.add({paper.what, "as it comes", "worst |error|", count, largest(errors), paper.worst});
    }
  }
}

// Whether forecasts err to one side as pipelines grow: the mean signed error at the largest p less
// that at the smallest.
void judge_zero_bubble_bias(const Publications& published, Aims& aims) {
  if (!published.has("zero-bubble.csv")) return;
  std::map<std::string, int> pipelines;
  for (const ZeroBubbleRow& row : zero_bubble_rows(published)) pipelines[row.name] = row.p;
  std::map<int, std::vector<double>> errors;
  for (const ReproductionLine& line : reproduce_zero_bubble_throughput(published).lines)
    errors[pipelines.at(line.row)].push_back(line.error());
  AimLine line{"Zero Bubble: throughput", "as it comes",
               "mean error at the largest p less that at the smallest",
               static_cast<int>(pipelines.size())};
  if (errors.size() > 1)  // the rows that are shipped have one p
    line.figure = std::abs(mean(errors.rbegin()->second) - mean(errors.begin()->second));
  line.aim = 0.02;
  aims.add(line);
}

}  // namespace

std::optional<bool> AimLine::reached() const {
  if (!figure || !aim) return std::nullopt;
  return at_least ? *figure >= *aim : *figure <= *aim;
}

void Aims::errors(const std::string& what, const std::vector<Judged>& rows,
                  std::optional<double> aim) {
  const int count = static_cast<int>(rows.size());
  AimLine line{what, "left out", "median |error|", count};
  AimLine shipped{what, "as it comes", "median |error|", count};
  line.aim = aim;
  if (!rows.empty()) {
    line.figure = median(errors_of(rows, true));
    shipped.figure = median(errors_of(rows, false));
  }
  add(line);
  add(shipped);
}

void Aims::anchored(const std::string& what, const std::vector<Judged>& rows, const MayAnchor& may,
                    const std::string& name, const Statistic& statistic,
                    std::optional<double> aim) {
  AimLine line{what, "anchored", name, static_cast<int>(rows.size())};
  const auto lists = anchored_log_errors(rows, may);
  if (!lists.empty()) line.figure = over_anchors(lists, statistic);
  line.aim = aim;
  add(line);
}

void judge_sources(const Bench& bench, const Publications& published,
                   std::vector<std::string>& crashes, Aims& aims) {
  judge_playbook(bench, aims);
  judge_playbook_memory(bench, aims);
  judge_fits(bench, crashes, aims);
  judge_bloom(bench, aims);
  judge_mlperf(bench, aims);
  judge_primus(bench, aims);
  judge_sharded(bench, aims);
  judge_sailor(bench, aims);
  judge_papers(published, aims);
  judge_zero_bubble_bias(published, aims);
  judge_vendors(bench, aims);
}

}  // namespace weir
