// What one choice of a layout does to a step, measured against forecast: a plan search trusts
// differences, which errors that all forecasts of a job share do not touch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tools/reproduce/measured/measured_run.hpp"

namespace weir {

enum class Factor : std::uint8_t {
  tp,
  pp,
  micro_batch,
  sequence_parallel,
  recompute,
  dp,
  cp,
  ep,
  vpp,
  eight_bits,
};
[[nodiscard]] std::string_view to_string(Factor factor);

// Two runs that differ in one factor alone, the second's the next larger of those measured (of
// sequence parallelism and products in 8 bits: with it against without; of re-materialisation more
// against less). log ratios of their times, second over first.
struct FactorPair {
  Factor factor = Factor::tp;
  std::size_t first = 0, second = 0;  // places among the runs
  double measured = 0, forecast = 0;
};

// All pairs among healthy runs. What follows from a factor may differ with it: the number of
// micro-batches, where mini-batch and devices stay (then DP gives what another degree takes); and
// of DP, which adds devices, the mini-batch at equal numbers of micro-batches, or the number of
// micro-batches at an equal mini-batch. Runs that no forecast was made of are in none.
[[nodiscard]] std::vector<FactorPair> factor_pairs(std::span<const MeasuredRun> runs,
                                                   std::span<const RunForecast> forecasts);

// Of a factor's pairs.
struct FactorEffect {
  Factor factor = Factor::tp;
  int pairs = 0, sources = 0;
  double measured = 1, forecast = 1;  // the median ratios of times
  double error = 0;                   // median |forecast ratio / measured ratio - 1|
  // Share of the pairs that are measured more than 2 % apart whose forecasts are so to the same
  // side; none of no such pair.
  int agreeing = 0, apart = 0;
};
// Of each factor that any pair has, in their order.
[[nodiscard]] std::vector<FactorEffect> factor_effects(std::span<const FactorPair> pairs,
                                                       std::span<const MeasuredRun> runs);

}  // namespace weir
