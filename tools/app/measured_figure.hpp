// One measured figure of a plan, as a user has it: "plan.json=22.3s,61GiB".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "plan/words/units.hpp"
#include "sim/forecast.hpp"

namespace weir::app {

// How fast, in the words of whoever measured it, and how full.
struct MeasuredFigure {
  enum class Kind {
    step_time,      // seconds
    flops,          // model FLOP/s of one device
    tokens_per_s,   // of the whole job
    samples_per_s,  // of the whole job
  };
  std::filesystem::path plan;
  std::string text;  // behind the sign of equality
  Kind kind = Kind::step_time;
  double value = 0;             // above 0
  std::optional<Bytes> memory;  // peak of the fullest device
};

// "FIGURE[,MEMORY]", of no plan: FIGURE is a step time (ns to h), TFLOPs a device, or tokens/s
// (tok/s) or samples/s of the whole job, with k or M before them; MEMORY is bytes with their unit.
// Throws UsageError naming `option`.
[[nodiscard]] MeasuredFigure parse_plain_figure(const std::string& text, const std::string& option);
// The same behind "PLAN=".
[[nodiscard]] MeasuredFigure parse_figure(const std::string& text, const std::string& option);

// The step time that the figure means for a plan with this forecast: rates are those that the
// forecast has, over its own step time. nullopt: the forecast has no such rate (a model without
// tokens).
[[nodiscard]] std::optional<Seconds> step_time_of(const MeasuredFigure& figure,
                                                  const Forecast& forecast);

}  // namespace weir::app
