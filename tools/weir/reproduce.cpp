// What people read of `weir reproduce`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/reproduce.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tools/reproduce/measured/reasons.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/terminal.hpp"

namespace weir {
namespace {

// All lines of a paper's table; of hundreds of measured runs only those off by more than 2x.
std::vector<ReproductionLine> shown(const CaseResult& result) {
  constexpr std::size_t kMost = 150;
  std::vector<ReproductionLine> lines = result.lines;
  if (lines.size() <= kMost) return lines;
  std::erase_if(lines, [](const ReproductionLine& line) {
    return line.predicted < 2 * line.published && line.published < 2 * line.predicted;
  });
  return lines;
}

void print_case(const CaseResult& result) {
  const std::vector<ReproductionLine> lines = shown(result);
  std::size_t row = 0, quantity = 0;
  for (const ReproductionLine& line : lines) {
    row = std::max(row, line.row.size());
    quantity = std::max(quantity, line.quantity.size());
  }
  for (const ReproductionLine& line : lines) {
    say("{}  {:<{}}  {:<{}}  {:>11.5g}  {:>11.5g}  {:>+6.1f} %  {}\n", result.name, line.row, row,
        line.quantity, quantity, line.published, line.predicted, line.error() * 100,
        to_string(line.role));
  }
  if (lines.size() < result.lines.size()) {
    say("{}: {} of {} lines, those off by more than 2x; --csv FILE has all\n", result.name,
        lines.size(), result.lines.size());
  }
  for (const Anomaly& a : result.anomalies) {
    say("{}  {}: {}: published {:.5g}, predicted {:.5g}: anomaly: {}\n", result.name, a.row,
        a.quantity, a.published, a.predicted, a.reason);
  }
  for (const std::string& note : result.notes) say("{}: {}\n", result.name, note);
  say("\n");
}

void print_summaries(const std::vector<CaseResult>& results) {
  say("{:<22} {:<10} {:>7} {:>8} {:>8} {:>8}\n", "case", "role", "numbers", "median", "mean",
      "worst");
  for (const CaseResult& result : results) {
    for (const ErrorSummary& s : summaries(result)) {
      say("{:<22} {:<10} {:>7} {:>6.2f} % {:>6.2f} % {:>6.2f} %\n", result.name, to_string(s.role),
          s.numbers, s.median * 100, s.mean * 100, s.worst * 100);
    }
  }
}

// A share as a percentage, anything else as it is.
std::string figure(const AimLine& line, double value) {
  const bool count = line.statistic.starts_with("rows") || line.statistic.starts_with("worse");
  if (count || line.statistic.starts_with("tau") || line.statistic.starts_with("widest"))
    return fmt::format("{:.4g}", value);
  return fmt::format("{:.1f} %", value * 100);
}

void print_aims(const CrossValidation& whole) {
  std::size_t what = 0, statistic = 0;
  for (const AimLine& line : whole.aims) {
    what = std::max(what, line.what.size());
    statistic = std::max(statistic, line.statistic.size());
  }
  for (const AimLine& line : whole.aims) {
    const auto reached = line.reached();
    const std::string aim =
        line.aim ? (line.at_least ? ">= " : "<= ") + figure(line, *line.aim) : "";
    say("{:<{}}  {:<11}  {:<{}}  {:>5}  {:>8}  {:>10}  {}\n", line.what, what, line.method,
        line.statistic, statistic, line.rows, line.figure ? figure(line, *line.figure) : "no row",
        aim,
        !reached   ? ""
        : *reached ? "reached"
                   : "missed");
  }
  bool first = true;
  for (const AimLine& line : whole.aims) {
    if (line.reached() != std::optional(false)) continue;
    if (std::exchange(first, false)) say("\nmissed, as far as is known because:\n");
    say("{}, {}: {}\n", line.what, line.method, known_reason(line));
  }
}

void print_groups(const CrossValidation& whole) {
  say("\n{:<18} {:<24} {:<7} {:>5} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>8}\n", "cluster", "stack",
      "of", "rows", "level", "others", "as comes", "left out", "anchored", "interval", "covers");
  for (const GroupLine& line : whole.groups) {
    const std::string interval =
        line.interval ? fmt::format("{:.0f} %", std::expm1(line.interval->half_width) * 100) : "";
    say("{:<18} {:<24} {:<7} {:>5} {:>7.3f} {:>7.3f} {:>7.1f} % {:>7.1f} % {:>7.1f} % {:>9} "
        "{:>6.0f} "
        "%\n",
        line.cluster, line.stack, line.is_memory ? "memory" : "time", line.rows, line.level,
        line.level_of_others, line.as_it_comes * 100, line.left_out * 100, line.anchored * 100,
        interval, line.coverage * 100);
  }
}

void print_sources(const CrossValidation& whole) {
  say("\n");
  for (const SourceLine& line : whole.sources) {
    say("{}: {} rows, {} forecast, {} failed, {} not healthy", line.source, line.rows,
        line.forecast, line.failed, line.unhealthy);
    for (const std::string& why : line.without) say("; without a forecast {}", why);
    say("\n");
  }
}

void print_cross_validation(const CrossValidation& whole) {
  print_aims(whole);
  print_groups(whole);
  print_sources(whole);
  say("\noff by more than 2x when left out:\n");
  for (const JudgedLine& line : whole.lines) {
    if (line.off_by_more_than_2x())
      say("{}: {}: {}: measured {:.5g}, forecast {:.5g}\n", line.run->source, line.run->row,
          line.quantity(), line.published, line.left_out);
  }
  for (const std::string& row : whole.crashes)
    say("{}: failed though its neighbours had room: taken as a crash\n", row);
  for (const std::string& note : whole.notes) say("{}\n", note);
}

}  // namespace

void print(const app::ReproduceRequest& request, const app::ReproduceResult& result) {
  if (request.list) {
    for (const ReproductionCase& c : reproduction_cases()) say("{:<22} {}\n", c.name, c.about);
    return;
  }
  if (result.cross_validation) {
    print_cross_validation(*result.cross_validation);
    return;
  }
  for (const CaseResult& one : result.cases) print_case(one);
  print_summaries(result.cases);
}

}  // namespace weir
