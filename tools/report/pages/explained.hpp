// What explains plans in reports: how sure their steps are, drawn, where a step goes, and what one
// change would bring.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/explain/waterfall.hpp"
#include "sim/explain/what_if.hpp"
#include "sim/forecast/forecast_record.hpp"

namespace weir {

// A step as it was forecast, and measured, where it was.
struct ForecastStep {
  std::string name;  // "best plan"
  const Forecast* forecast;
  std::optional<Seconds> measured = {};
};

// Each as a bar with its interval's ends, under each other on one axis, and what was measured as a
// stroke. Nothing of one step alone of which no more is known.
[[nodiscard]] std::string interval_figure(const std::vector<ForecastStep>& steps);

struct StepExplained {
  std::string name;
  std::string unexplained{};  // why nothing else is here; empty: it is
  Waterfall waterfall{};
  std::vector<WhatIf> what_if{};  // in the order of what_if()
  std::string cut{};    // why not every change was forecast, "its time was over"; empty: all were
  std::string stack{};  // the software whose changes beyond it are counted apart
};

// Two sections of a plan and what it is held against: the waterfalls beside each other, drawn and
// as a table; and of each plan what one change would bring, ten at most. Of a plan that is not
// explained a line says why. Nothing of no plans.
[[nodiscard]] std::string explained_sections(const std::vector<StepExplained>& plans);

}  // namespace weir
