// GPipe, Tables 2 and 3: how a Transformer's throughput grows with K and M, and the share of
// re-materialisation.
//
// One rule for both machines, nothing fitted: a cell is an attention or a feed-forward sublayer, or
// the vocabulary head, which is the last; its time is its FLOPs; B = 2 F; every stage
// re-materialises (GPipe always does), R not waiting for the gradient; boundaries are the best
// there are. Only ratios are printed, so the rate cancels but against the link.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/partition/balanced.hpp"
#include "tools/reproduce/gpipe.hpp"
#include "tools/reproduce/pipeline.hpp"
#include "tools/reproduce/reproduction.hpp"

namespace weir {
namespace {

constexpr double kWidth = 2048, kSequence = 1024, kVocabulary = 32000, kThroughputBatch = 32;

struct Machine {
  FlopsPerSecond rate{0};
  BytesPerSecond link{0};
  double bytes_per_number = 0;
};

struct Cell {
  double flops = 0;   // forward, of a token
  double output = 0;  // numbers that a boundary after it carries, of a token
};

// Attention: projections 8 d^2 and scores 4 s d. Two feed-forward layers, 8 d^2 each; between them
// 4 d numbers, and d of the residual. The head: 2 d V.
std::vector<Cell> transformer_cells(int layers) {
  constexpr double kSquare = kWidth * kWidth;
  std::vector<Cell> cells;
  for (int l = 0; l < layers; ++l) {
    cells.push_back({8 * kSquare + 4 * kSequence * kWidth, kWidth});
    cells.push_back({8 * kSquare, 5 * kWidth});
    cells.push_back({8 * kSquare, kWidth});
  }
  cells.push_back({2 * kWidth * kVocabulary, 0});
  return cells;
}

StageCost stage_cost(Seconds forward) {
  StageCost cost;
  cost.f = cost.r = to_nanoseconds(forward);
  cost.b = to_nanoseconds(forward * 2);
  return cost;
}

StepMetrics transformer_step(int layers, int k, int m, const Machine& machine) {
  const Schedule schedule = named_schedule("gpipe", k, 1, m);
  const double tokens = kThroughputBatch * kSequence / m;
  // Integers, as the partition compares sums: equal cells must be exactly equal.
  std::vector<std::int64_t> times;
  const std::vector<Cell> cells = transformer_cells(layers);
  for (const Cell& cell : cells)
    times.push_back(to_nanoseconds(Flops(cell.flops * tokens) / machine.rate).count());
  // What crosses after a cell is that cell's output.
  const auto crossing = [&](const Cell& cell) {
    const Seconds time(tokens * cell.output * machine.bytes_per_number / machine.link.count());
    return MessageCost{to_nanoseconds(time), Nanoseconds(0)};
  };
  // The best boundaries there are: the paper does not print its own.
  std::vector<int> starts = best_boundaries(times, k);
  starts.insert(starts.begin(), 0);
  starts.push_back(static_cast<int>(times.size()));
  CostTable costs;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    std::int64_t sum = 0;
    for (int c = starts[s]; c < starts[s + 1]; ++c) sum += times[static_cast<std::size_t>(c)];
    costs.stages.push_back(stage_cost(to_seconds(Nanoseconds(sum))));
    costs.forward_messages.push_back(crossing(cells[static_cast<std::size_t>(starts[s + 1] - 1)]));
    // Gradients cross where outputs did, and are as large.
    costs.backward_messages.push_back(s == 0 ? MessageCost{} : costs.forward_messages[s - 1]);
  }
  return time_pipeline(schedule, costs, {.recompute = true});
}

double most_gain(const GPipeGain& gain) {
  double most = 0;
  for (const bool recompute : {false, true}) {
    const auto step = [recompute](int ranks, int microbatches) {
      const Schedule schedule = named_schedule("gpipe", ranks, 1, microbatches);
      CostTable costs = equal_stages(schedule, {});
      for (StageCost& cost : costs.stages) cost = stage_cost(Seconds(1.0 / ranks / microbatches));
      return to_seconds(time_pipeline(schedule, costs, {.recompute = recompute}).step_time);
    };
    most = std::max(most, step(gain.base_k, gain.base_m) / step(gain.k, gain.m));
  }
  return most;
}

double rematerialisation_share(const StepMetrics& step) {
  double share = 0;
  for (const RankMetrics& rank : step.ranks)
    share += to_seconds(rank.rematerialise) / to_seconds(step.step_time);
  return share / static_cast<double>(step.ranks.size());
}

}  // namespace

GPipeGain read_gain(const PublishedRow& row) {
  return {row.integer("k"), row.integer("m"), row.integer("base_k"), row.integer("base_m")};
}

void add_gain(CaseResult& result, const GPipeGain& gain, const ReproducedNumber& number) {
  const double most = most_gain(gain);
  if (number.published.value - number.published.last_digit / 2 <= most) {
    result.add(Role::predicted, number);
    return;
  }
  result.add_anomaly(
      number,
      fmt::format("above {:.2f}, the most at one batch size; the paper adjusted batch sizes from "
                  "cell to cell",
                  most));
}

CaseResult reproduce_gpipe_throughput(const Publications& published) {
  std::map<std::string, Machine> machines;
  for (const PublishedRow& row : published.table("gpipe-machines.csv")) {
    machines[row.text("machine")] = {FlopsPerSecond(row.number("tflops") * 1e12),
                                     BytesPerSecond(row.number("link_gb_per_s") * 1e9),
                                     row.number("bytes_per_number")};
  }
  CaseResult result;
  for (const PublishedRow& row : published.table("gpipe-throughput.csv")) {
    const int layers = row.integer("layers");
    const auto [k, m, base_k, base_m] = read_gain(row);
    // The row that all others are measured by is 1 by definition.
    if (k == base_k && m == base_m) continue;
    const Machine& machine = named(machines, row, "machine");
    const double gain = to_seconds(transformer_step(layers, base_k, base_m, machine).step_time) /
                        to_seconds(transformer_step(layers, k, m, machine).step_time);
    add_gain(result, {k, m, base_k, base_m},
             {fmt::format("table {}, Transformer-{} K={} M={}", row.text("table"), layers, k, m),
              fmt::format("throughput over K={} M={}", base_k, base_m), row.printed("throughput"),
              gain});
  }
  for (const PublishedRow& row : published.table("gpipe-breakdown.csv")) {
    const int k = row.integer("k"), m = row.integer("m");
    const StepMetrics step =
        transformer_step(row.integer("layers"), k, m, named(machines, row, "machine"));
    result.add(
        Role::predicted,
        {fmt::format("section 3.1, K={} M={}", k, m), "share of re-materialisation in the step",
         row.printed("rematerialisation_share"), rematerialisation_share(step)});
  }
  result.notes.emplace_back(
      "d = 2048, 1024 tokens, V = 32000; a boundary may fall after attention and after either "
      "feed-forward layer; the "
      "head is the last cell, on the last stage.");
  return result;
}

}  // namespace weir
