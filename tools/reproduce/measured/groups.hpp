// The runs of one cluster and one stack: how far their forecasts are off, and the interval that
// other groups give them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/fit/builtin_interval.hpp"
#include "tools/reproduce/measured/aims.hpp"

namespace weir {

// The runs of one cluster and stack.
struct GroupLine {
  std::string cluster, stack;
  bool is_memory = false;
  int rows = 0;
  double level = 1;            // median of measured / the model's own
  double level_of_others = 1;  // what it is forecast with when it is left out
  double as_it_comes = 0, left_out = 0, anchored = 0;  // median |error|
  std::optional<BuiltinInterval> interval;             // when it is left out
  double coverage = 0;                                 // of the runs, by that interval
};

// Adds the errors of the groups among `rows` to `errors`, and a line for each to `lines`.
void add_groups(const std::vector<Judged>& rows, bool memory, std::vector<GroupErrors>& errors,
                std::vector<GroupLine>& lines);

// The aims for what intervals cover and how wide they are, and for what an anchor does.
void judge_intervals(const std::vector<GroupLine>& lines, const std::vector<GroupErrors>& errors,
                     Aims& aims);
void judge_anchoring(const std::vector<GroupLine>& lines, Aims& aims);

}  // namespace weir
