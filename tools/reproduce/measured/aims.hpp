// What is aimed at on measured runs, and how far it is reached.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/reproduce/measured/bench.hpp"

namespace weir {

// One aim: reached where `figure` lies on the right side of it.
struct AimLine {
  std::string what;       // "playbook, pipelined, TP <= 8: time"
  std::string method;     // "left out", "anchored", "as it comes"
  std::string statistic;  // "median |error|"
  int rows = 0;
  std::optional<double> figure;  // none: no row
  std::optional<double> aim;     // none: told for comparison
  bool at_least = false;         // the aim is a floor, not a ceiling

  [[nodiscard]] std::optional<bool> reached() const;  // none: no aim, or no figure
};

// Adds lines to a table.
class Aims {
 public:
  explicit Aims(std::vector<AimLine>& lines) : lines_(lines) {}

  void add(AimLine line) { lines_.push_back(std::move(line)); }

  // Of rows as they come and left out, in the median.
  void errors(const std::string& what, const std::vector<Judged>& rows, std::optional<double> aim);
  void anchored(const std::string& what, const std::vector<Judged>& rows, const MayAnchor& may,
                const std::string& name, const Statistic& statistic, std::optional<double> aim);

 private:
  std::vector<AimLine>& lines_;
};

// The aims for the runs of each source and the papers' own cases, in the order of the table. Failed
// runs that fit and whose nearest neighbours had room are added to `crashes`.
void judge_sources(const Bench& bench, const Publications& published,
                   std::vector<std::string>& crashes, Aims& aims);

}  // namespace weir
