// How far a forecast by built-in costs may be off, from the errors of such forecasts on measured
// runs of other clusters and other software than the one asked about: split conformal intervals
// with the runs of one cluster and stack as one group (Dunn, Wasserman and Ramdas,
// Distribution-free prediction sets for two-layer hierarchical models, JASA 2022; the pooling of
// whole groups). A new cluster is one more group, exchangeable with those there are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

// What of a run was forecast, and how.
enum class BuiltinQuantity : std::uint8_t {
  step,             // its time, by built-in costs
  memory,           // its peak, likewise
  anchored_step,    // its time, once another run of its group has set the scale
  anchored_memory,  // its peak, likewise
};
[[nodiscard]] std::string_view to_string(BuiltinQuantity quantity);

// log(measured / forecast) of one group's runs.
struct GroupErrors {
  std::string cluster, stack;
  BuiltinQuantity quantity = BuiltinQuantity::step;
  int rows = 0;
  double level = 0;  // their median as the forecasts come
  // Of |log(measured / forecast)| once centred by other groups, or anchored by its own.
  std::vector<double> quantiles;  // equally spaced, from the smallest to the largest; not empty
};

struct BuiltinInterval {
  double nominal = 0;                      // probability that a run lies within
  double centre = 0, half_width = 0;       // forecast * e^(c-h) to forecast * e^(c+h)
  int rows = 0, clusters = 0, stacks = 0;  // that it stands on
};

// From the groups of neither `cluster` nor `stack`. Of G groups each weighs 1 / (G + 1) and so does
// the one that was never seen: the interval is the least that groups of weight 0.9 lie within.
// Where they weigh less than that, or hardly more, the nominal level is 0.95 G / (G + 1): at G /
// (G + 1) the one worst run of all would be the interval. nullopt: no group is left.
[[nodiscard]] std::optional<BuiltinInterval> grouped_interval(std::span<const GroupErrors> groups,
                                                              std::string_view cluster,
                                                              std::string_view stack,
                                                              BuiltinQuantity quantity);

// From the errors that were shipped (tools/examples/measured/builtin_errors.csv).
[[nodiscard]] std::optional<BuiltinInterval> builtin_interval(std::string_view cluster,
                                                              std::string_view stack,
                                                              BuiltinQuantity quantity);

// The shipped table: "cluster,stack,quantity,rows,level,q0,...". Throws InputError.
[[nodiscard]] std::vector<GroupErrors> parse_group_errors(const std::string& text,
                                                          const std::string& file);
[[nodiscard]] std::string to_csv(std::span<const GroupErrors> groups);
// Its text, compiled in.
[[nodiscard]] std::string_view shipped_group_errors();

// What forecasts of a group miss, told by the levels of others: their median, times G / (G + 2) for
// G of them, as if two more had missed nothing. 0 where there are none.
[[nodiscard]] double level_of_others(std::vector<double> levels);

// The quantiles that stand for `errors`. Precondition: not empty.
[[nodiscard]] std::vector<double> spaced_quantiles(std::vector<double> errors);

}  // namespace weir
