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

#include "plan/job/layout_words.hpp"

namespace weir {

// What of a run was forecast, and how.
enum class BuiltinQuantity : std::uint8_t {
  step,             // its time, by built-in costs
  memory,           // its peak, likewise
  anchored_step,    // its time, once another run of its group has set the scale
  anchored_memory,  // its peak, likewise
  // Its time by the default call, which names no software, with what was chosen seeing its source
  // left out: as a share of unnamed_scale() to the side that it lies on.
  unnamed_step,
  // The ratio of its time to another's, which is what is left of an error where that one was
  // measured, forecast by its own software: of the same plan, of one of its job that differs in one
  // choice, or in several. Of another job it is anchored_step.
  ratio_same,
  ratio_one_choice,
  ratio_choices,
  // The same by the default call.
  default_ratio_same,
  default_ratio_one_choice,
  default_ratio_choices,
  default_ratio_other_job,
};
[[nodiscard]] std::string_view to_string(BuiltinQuantity quantity);
// What says how far a step may be off where one so far away was measured.
enum class SoftwareKnown : std::uint8_t { named, by_default };
[[nodiscard]] BuiltinQuantity measured_at(PlanDistance distance, SoftwareKnown known);

// log(measured / forecast) of one group's runs.
struct GroupErrors {
  std::string source;  // where no software is named, and of ratios: whose runs; else empty
  std::string cluster, stack;
  BuiltinQuantity quantity = BuiltinQuantity::step;
  int rows = 0;
  double level = 0;  // their median as the forecasts come
  // Of |log(measured / forecast)| once centred by other groups, or anchored by its own; where no
  // software is named, of that over its scale. Equally spaced, from the smallest; not empty.
  std::vector<double> quantiles;
};

struct BuiltinInterval {
  double nominal = 0;                      // probability that a run lies within
  double centre = 0, half_width = 0;       // forecast * e^(c-h) to forecast * e^(c+h)
  int rows = 0, clusters = 0, stacks = 0;  // that it stands on
};

// From the groups of neither `cluster` nor `stack`. Of G groups each weighs 1 / (G + 1) and so does
// the one that was never seen. Of memory, whose worst case is asked for: the least that groups of
// weight 0.9 lie within, or where they weigh hardly more, 0.95 G / (G + 1), at which the one worst
// run of all is not yet the interval. Of times half of the group that was never seen is taken to
// lie within, and the level is 0.85, or 0.95 of what there is. nullopt: no group is left.
[[nodiscard]] std::optional<BuiltinInterval> grouped_interval(std::span<const GroupErrors> groups,
                                                              std::string_view cluster,
                                                              std::string_view stack,
                                                              BuiltinQuantity quantity);

// How far a step may be off where no software is named, as a logarithm: the software that is known
// takes up to `software` more or less, and forecasts of named software miss what they miss. Neither
// knows of the other, so their squares add.
[[nodiscard]] double unnamed_scale(double software);

// Of what the default call forecasts, a step (its half width a multiple of unnamed_scale()) or the
// ratio of two: the quantile of 85 % over the groups of all sources but `without_source`, whatever
// their clusters and software, for what runs a plan may be any of them. Of G groups each weighs
// 1 / (G + 1), and half of the one that was never seen is taken to lie within. nullopt: fewer than
// three groups.
[[nodiscard]] std::optional<BuiltinInterval> default_interval(std::span<const GroupErrors> groups,
                                                              BuiltinQuantity quantity,
                                                              std::string_view without_source = "");

// From the errors that were shipped (tools/examples/measured/builtin_errors.csv).
[[nodiscard]] std::optional<BuiltinInterval> builtin_interval(std::string_view cluster,
                                                              std::string_view stack,
                                                              BuiltinQuantity quantity);

[[nodiscard]] std::optional<BuiltinInterval> unnamed_interval();
// Of a plan so far from one that was measured, or from one that it is compared with: of named
// software from other clusters and software, else from all.
[[nodiscard]] std::optional<BuiltinInterval> interval_beside(PlanDistance distance,
                                                             std::string_view cluster,
                                                             std::string_view stack,
                                                             SoftwareKnown known);

// The shipped table: "source,cluster,stack,quantity,rows,level,q0,...". Throws InputError.
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
