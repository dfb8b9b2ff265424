// What people read of `weir reproduce`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/reproduce.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "tools/weir/commands.hpp"

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
    fmt::print("{}  {:<{}}  {:<{}}  {:>11.5g}  {:>11.5g}  {:>+6.1f} %  {}\n", result.name, line.row,
               row, line.quantity, quantity, line.published, line.predicted, line.error() * 100,
               to_string(line.role));
  }
  if (lines.size() < result.lines.size()) {
    fmt::print("{}: {} of {} lines, those off by more than 2x; --csv FILE has all\n", result.name,
               lines.size(), result.lines.size());
  }
  for (const Anomaly& a : result.anomalies) {
    fmt::print("{}  {}: {}: published {:.5g}, predicted {:.5g}: anomaly: {}\n", result.name, a.row,
               a.quantity, a.published, a.predicted, a.reason);
  }
  for (const std::string& note : result.notes) fmt::print("{}: {}\n", result.name, note);
  fmt::print("\n");
}

void print_summaries(const std::vector<CaseResult>& results) {
  fmt::print("{:<22} {:<10} {:>7} {:>8} {:>8} {:>8}\n", "case", "role", "numbers", "median", "mean",
             "worst");
  for (const CaseResult& result : results) {
    for (const ErrorSummary& s : summaries(result)) {
      fmt::print("{:<22} {:<10} {:>7} {:>6.2f} % {:>6.2f} % {:>6.2f} %\n", result.name,
                 to_string(s.role), s.numbers, s.median * 100, s.mean * 100, s.worst * 100);
    }
  }
}

}  // namespace

void print(const app::ReproduceRequest& request, const app::ReproduceResult& result) {
  if (request.list) {
    for (const ReproductionCase& c : reproduction_cases())
      fmt::print("{:<22} {}\n", c.name, c.about);
    return;
  }
  for (const CaseResult& one : result.cases) print_case(one);
  print_summaries(result.cases);
}

}  // namespace weir
