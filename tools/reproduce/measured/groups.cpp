// Groups of runs: their levels, their errors, and the intervals made of other groups' errors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/measured/groups.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "traces/stats.hpp"

namespace weir {
namespace {

double median_of_group(std::vector<double> values) { return median(std::move(values)); }

using GroupKey = std::pair<std::string, std::string>;

std::map<GroupKey, std::vector<Judged>> groups_of(const std::vector<Judged>& rows) {
  std::map<GroupKey, std::vector<Judged>> groups;
  for (const Judged& one : rows) groups[{one.cluster, one.stack}].push_back(one);
  return groups;
}

std::vector<double> absolute(const std::vector<std::vector<double>>& lists) {
  std::vector<double> all;
  for (const std::vector<double>& list : lists) {
    for (const double error : list) all.push_back(std::abs(error));
  }
  return all;
}

// Errors of a group's runs, left out and anchored, as builtin_interval() takes them.
void add_errors(const GroupKey& key, const std::vector<Judged>& rows, bool memory,
                std::vector<GroupErrors>& errors) {
  std::vector<double> left_out, ratios;
  // Left out: by the levels of other clusters and stacks.
  for (const Judged& one : rows) {
    left_out.push_back(std::abs(one.log_left_out()));
    ratios.push_back(one.log_error);
  }
  // Anchored: by another run of its own cluster, as a user would have.
  const std::vector<double> anchored = absolute(anchored_log_errors(rows, same_group));
  const int count = static_cast<int>(rows.size());
  // The median of the raw errors is the group's level.
  errors.push_back({"", key.first, key.second,
                    memory ? BuiltinQuantity::memory : BuiltinQuantity::step, count, median(ratios),
                    spaced_quantiles(left_out)});
  if (anchored.empty()) return;
  errors.push_back({"", key.first, key.second,
                    memory ? BuiltinQuantity::anchored_memory : BuiltinQuantity::anchored_step,
                    count, 0, spaced_quantiles(anchored)});
}

GroupLine group_line(const GroupKey& key, const std::vector<Judged>& rows, bool memory,
                     const std::vector<GroupErrors>& errors) {
  GroupLine line{key.first, key.second, memory, static_cast<int>(rows.size())};
  std::vector<double> ratios;
  for (const Judged& one : rows) ratios.push_back(one.log_error);
  // Levels are factors, so they are taken out of their logarithms.
  line.level = std::exp(median(ratios));
  line.level_of_others = std::exp(rows.front().log_factor);
  line.as_it_comes = median(errors_of(rows, false));
  line.left_out = median(errors_of(rows, true));
  const auto anchored = anchored_log_errors(rows, same_group);
  if (!anchored.empty()) line.anchored = over_anchors(anchored, median_of_group);
  line.interval = grouped_interval(errors, key.first, key.second,
                                   memory ? BuiltinQuantity::memory : BuiltinQuantity::step);
  if (!line.interval) return line;
  // A run is covered where its error is within the interval of the others.
  int covered = 0;
  for (const Judged& one : rows)
    covered += std::abs(one.log_left_out()) <= line.interval->half_width ? 1 : 0;
  line.coverage = 1.0 * covered / line.rows;
  return line;
}

// Half of what lies between e^-h and e^h.
double half_share(const BuiltinInterval& interval) { return std::sinh(interval.half_width); }

}  // namespace

void add_groups(const std::vector<Judged>& rows, bool memory, std::vector<GroupErrors>& errors,
                std::vector<GroupLine>& lines) {
  const auto groups = groups_of(rows);
  for (const auto& [key, of_group] : groups) add_errors(key, of_group, memory, errors);
  for (const auto& [key, of_group] : groups)
    lines.push_back(group_line(key, of_group, memory, errors));
}

// Of times: the aims are for step_time_interval_s.
void judge_intervals(const std::vector<GroupLine>& lines, const std::vector<GroupErrors>& errors,
                     Aims& aims) {
  constexpr int kRows = 20;
  std::vector<double> coverages, widths, anchored;
  // Few rows tell nothing of a share.
  for (const GroupLine& line : lines) {
    if (line.is_memory || line.rows < kRows || !line.interval) continue;
    coverages.push_back(line.coverage);
    widths.push_back(half_share(*line.interval));
    const auto narrow =
        grouped_interval(errors, line.cluster, line.stack, BuiltinQuantity::anchored_step);
    if (narrow) anchored.push_back(half_share(*narrow));
  }
  const std::string what = "intervals, left-out clusters of 20 rows or more";
  const int count = static_cast<int>(coverages.size());
  if (count == 0) return;
  aims.add({what, "left out", "mean coverage", count, mean(coverages), 0.80, true});
  // Upper over lower at most 1.45: sinh of half its logarithm.
  aims.add({what, "left out", "median half-width", count, median(widths), 0.187});
  if (!anchored.empty())
    aims.add({what, "anchored", "median half-width", count, median(anchored), 0.15});
}

void judge_anchoring(const std::vector<GroupLine>& lines, Aims& aims) {
  int groups = 0, worse = 0;
  for (const GroupLine& line : lines) {
    if (line.rows < 3) continue;
    ++groups;
    worse += line.anchored > line.as_it_comes + 1e-9 ? 1 : 0;
  }
  aims.add({"all clusters and stacks of 3 rows or more", "anchored",
            "worse in the median than as it comes", groups, static_cast<double>(worse), 0});
}

}  // namespace weir
