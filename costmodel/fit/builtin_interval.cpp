// Grouped conformal intervals of built-in forecasts, and the table they are made from.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/fit/builtin_interval.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

#include "plan/words/error.hpp"
#include "plan/words/names.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

constexpr double kNominal = 0.9;
constexpr double kOfGroups = 0.95;      // of what the groups weigh; the rest is their worst runs
constexpr std::size_t kQuantiles = 21;  // every 5 %

constexpr double kOfSources = 0.85;  // what an interval of all sources is to hold

constexpr Names<BuiltinQuantity, 12> kQuantities{
    {{BuiltinQuantity::step, "step"},
     {BuiltinQuantity::memory, "memory"},
     {BuiltinQuantity::anchored_step, "anchored_step"},
     {BuiltinQuantity::anchored_memory, "anchored_memory"},
     {BuiltinQuantity::unnamed_step, "unnamed_step"},
     {BuiltinQuantity::ratio_same, "ratio_same"},
     {BuiltinQuantity::ratio_one_choice, "ratio_one_choice"},
     {BuiltinQuantity::ratio_choices, "ratio_choices"},
     {BuiltinQuantity::default_ratio_same, "default_ratio_same"},
     {BuiltinQuantity::default_ratio_one_choice, "default_ratio_one_choice"},
     {BuiltinQuantity::default_ratio_choices, "default_ratio_choices"},
     {BuiltinQuantity::default_ratio_other_job, "default_ratio_other_job"}}};

// A score and the weight of its group's share.
struct Weighed {
  double score = 0, weight = 0;
};

// The least score that scores of `level` lie at or below; the largest where rounding leaves none.
double weighted_quantile(std::vector<Weighed> scores, double level) {
  std::ranges::sort(scores, {}, &Weighed::score);
  double below = 0;
  for (const Weighed& one : scores) {
    below += one.weight;
    if (below >= level - 1e-9) return one.score;
  }
  return scores.back().score;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream parts(line);
  for (std::string cell; std::getline(parts, cell, ',');) cells.push_back(cell);
  return cells;
}

double number_of(const std::string& cell, const std::string& file, int line) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value))
    throw InputError(file, fmt::format("line {}", line),
                     fmt::format("\"{}\": expected a number", cell));
  return value;
}

double size_of(const std::string& cell, const std::string& file, int line) {
  const double value = number_of(cell, file, line);
  if (value < 0)
    throw InputError(file, fmt::format("line {}", line),
                     fmt::format("\"{}\": expected a number, at least 0", cell));
  return value;
}

GroupErrors group_of(const std::string& text, const std::string& file, int line) {
  const std::vector<std::string> cells = cells_of(text);
  const std::string place = fmt::format("line {}", line);
  constexpr std::size_t kBefore = 6;  // columns
  if (cells.size() != kBefore + kQuantiles)
    throw InputError(file, place, fmt::format("expected {} columns", kBefore + kQuantiles));
  GroupErrors group{cells[0], cells[1], cells[2]};
  const auto quantity = named(kQuantities, cells[3]);
  if (!quantity) throw InputError(file, place, fmt::format("\"{}\" is no quantity", cells[3]));
  group.quantity = *quantity;
  constexpr double kMostRows = 1e9;
  const double rows = size_of(cells[4], file, line);
  if (rows > kMostRows) throw InputError(file, place, "expected rows, at most 1e9");
  group.rows = static_cast<int>(rows);
  group.level = number_of(cells[5], file, line);
  for (std::size_t c = kBefore; c < cells.size(); ++c)
    group.quantiles.push_back(size_of(cells[c], file, line));
  return group;
}

}  // namespace

std::string_view to_string(BuiltinQuantity quantity) { return name_of(kQuantities, quantity); }

BuiltinQuantity measured_at(PlanDistance distance, SoftwareKnown known) {
  const bool named = known == SoftwareKnown::named;
  switch (distance) {
    case PlanDistance::none:
      return named ? BuiltinQuantity::ratio_same : BuiltinQuantity::default_ratio_same;
    case PlanDistance::one_choice:
      return named ? BuiltinQuantity::ratio_one_choice : BuiltinQuantity::default_ratio_one_choice;
    case PlanDistance::choices:
      return named ? BuiltinQuantity::ratio_choices : BuiltinQuantity::default_ratio_choices;
    case PlanDistance::other_job:
      break;
  }
  return named ? BuiltinQuantity::anchored_step : BuiltinQuantity::default_ratio_other_job;
}

std::optional<BuiltinInterval> grouped_interval(std::span<const GroupErrors> groups,
                                                std::string_view cluster, std::string_view stack,
                                                BuiltinQuantity quantity) {
  std::vector<const GroupErrors*> others;
  for (const GroupErrors& group : groups) {
    // Neither the plan's cluster nor its software: the interval is of errors on what was never
    // seen.
    if (group.quantity == quantity && group.cluster != cluster && group.stack != stack)
      others.push_back(&group);
  }
  if (others.empty()) return std::nullopt;
  const double count = static_cast<double>(others.size());
  BuiltinInterval interval;
  const bool of_memory =
      quantity == BuiltinQuantity::memory || quantity == BuiltinQuantity::anchored_memory;
  // Of the group that was never seen.
  const double within = of_memory ? 0 : 0.5 / (count + 1);
  // The group that was never seen weighs 1 / (G + 1), so few groups cannot promise a high coverage
  // (docs/theory.md 9.4).
  interval.nominal =
      std::min(of_memory ? kNominal : kOfSources, kOfGroups * (count / (count + 1) + within));
  std::vector<Weighed> scores;
  std::set<std::string> clusters, stacks;
  std::vector<double> levels;
  for (const GroupErrors* group : others) {
    levels.push_back(group->level);
    // Every group weighs alike, however many runs it has: a cluster that was measured often is one
    // cluster.
    const double share = 1 / (count + 1) / static_cast<double>(group->quantiles.size());
    for (const double error : group->quantiles) scores.push_back({error, share});
    interval.rows += group->rows;
    clusters.insert(group->cluster);
    stacks.insert(group->stack);
  }
  interval.centre = level_of_others(std::move(levels));
  interval.half_width = weighted_quantile(std::move(scores), interval.nominal - within);
  interval.clusters = static_cast<int>(clusters.size());
  interval.stacks = static_cast<int>(stacks.size());
  return interval;
}

namespace {

std::vector<const GroupErrors*> of_sources(std::span<const GroupErrors> groups,
                                           BuiltinQuantity quantity, std::string_view without) {
  std::vector<const GroupErrors*> some;
  for (const GroupErrors& group : groups) {
    if (group.quantity == quantity && (without.empty() || group.source != without))
      some.push_back(&group);
  }
  constexpr std::size_t kFewest = 3;
  if (some.size() < kFewest) some.clear();
  return some;
}

// Half of the group that was never seen lies below what is sorted.
double quantile_of_groups(const std::vector<const GroupErrors*>& groups, double level) {
  const double each = 1 / (static_cast<double>(groups.size()) + 1);
  std::vector<Weighed> scores;
  for (const GroupErrors* group : groups) {
    const double share = each / static_cast<double>(group->quantiles.size());
    for (const double error : group->quantiles) scores.push_back({error, share});
  }
  return weighted_quantile(std::move(scores), level - each / 2);
}

// What the interval stands on.
void count(const std::vector<const GroupErrors*>& groups, BuiltinInterval& figures) {
  std::set<std::string> clusters, stacks;
  for (const GroupErrors* group : groups) {
    figures.rows += group->rows;
    clusters.insert(group->cluster);
    stacks.insert(group->stack);
  }
  figures.clusters = static_cast<int>(clusters.size());
  figures.stacks = static_cast<int>(stacks.size());
}

}  // namespace

double unnamed_scale(double software) {
  // About the half width of the interval of named software: 0.159 to 0.191 by the shipped errors of
  // its 17 clusters and stacks. The quantile of the scores makes up for whatever it is, so it
  // decides no coverage: it says how much wider an interval grows where software differs more.
  constexpr double kNamed = 0.16;
  return std::hypot(software, kNamed);
}

std::optional<BuiltinInterval> default_interval(std::span<const GroupErrors> groups,
                                                BuiltinQuantity quantity,
                                                std::string_view without_source) {
  const auto some = of_sources(groups, quantity, without_source);
  if (some.empty()) return std::nullopt;
  BuiltinInterval interval{.nominal = kOfSources};
  interval.half_width = quantile_of_groups(some, kOfSources);
  count(some, interval);
  return interval;
}

namespace {

// Read once: the text is compiled in and never changes.
const std::vector<GroupErrors>& shipped() {
  static const std::vector<GroupErrors> kShipped =
      parse_group_errors(std::string(shipped_group_errors()), "builtin_errors.csv");
  return kShipped;
}

}  // namespace

std::optional<BuiltinInterval> builtin_interval(std::string_view cluster, std::string_view stack,
                                                BuiltinQuantity quantity) {
  return grouped_interval(shipped(), cluster, stack, quantity);
}

std::optional<BuiltinInterval> unnamed_interval() {
  return default_interval(shipped(), BuiltinQuantity::unnamed_step);
}

std::optional<BuiltinInterval> interval_beside(PlanDistance distance, std::string_view cluster,
                                               std::string_view stack, SoftwareKnown known) {
  // Plans further apart share less, so what holds for them holds for nearer ones, of which there
  // may be few runs: the narrowest from this distance on.
  std::optional<BuiltinInterval> narrowest;
  for (const PlanDistance apart : {PlanDistance::none, PlanDistance::one_choice,
                                   PlanDistance::choices, PlanDistance::other_job}) {
    if (apart < distance) continue;
    const BuiltinQuantity quantity = measured_at(apart, known);
    const auto interval = known == SoftwareKnown::by_default
                              ? default_interval(shipped(), quantity)
                              : grouped_interval(shipped(), cluster, stack, quantity);
    if (interval && (!narrowest || interval->half_width < narrowest->half_width))
      narrowest = interval;
  }
  return narrowest;
}

std::vector<GroupErrors> parse_group_errors(const std::string& text, const std::string& file) {
  std::vector<GroupErrors> groups;
  std::istringstream lines(text);
  int number = 0;
  bool header = true;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    if (!header) groups.push_back(group_of(line, file, number));
    header = false;
  }
  return groups;
}

std::string to_csv(std::span<const GroupErrors> groups) {
  std::string csv =
      "# |log(measured / forecast)| of built-in forecasts of the runs in this folder, each group "
      "left\n# out of the levels that forecast it: quantiles in steps of 5 %. level: the median of "
      "log(measured /\n# forecast) as it comes; 0 of anchored ones and of ratios. unnamed_step: "
      "in shares of what\n# known software and named forecasts may differ by; ratio: of pairs of "
      "one job's runs. Written\n# by weir reproduce.\n"
      "source,cluster,stack,quantity,rows,level";
  for (std::size_t q = 0; q < kQuantiles; ++q) csv += fmt::format(",q{}", q * 5);
  csv += '\n';
  for (const GroupErrors& group : groups) {
    csv += fmt::format("{},{},{},{},{},{:.4f}", group.source, group.cluster, group.stack,
                       to_string(group.quantity), group.rows, group.level);
    for (const double error : group.quantiles) csv += fmt::format(",{:.4f}", error);
    csv += '\n';
  }
  return csv;
}

double level_of_others(std::vector<double> levels) {
  if (levels.empty()) return 0;
  constexpr double kDoubt = 2;  // groups that would need no factor
  const double count = static_cast<double>(levels.size());
  return median(std::move(levels)) * count / (count + kDoubt);
}

std::vector<double> spaced_quantiles(std::vector<double> errors) {
  std::ranges::sort(errors);
  std::vector<double> quantiles;
  const double last = static_cast<double>(errors.size() - 1);
  for (std::size_t q = 0; q < kQuantiles; ++q) {
    // Rounded up: a quantile stands for no less than it is.
    const double place = std::ceil(last * static_cast<double>(q) / (kQuantiles - 1) - 1e-9);
    quantiles.push_back(errors[static_cast<std::size_t>(place)]);
  }
  return quantiles;
}

}  // namespace weir
