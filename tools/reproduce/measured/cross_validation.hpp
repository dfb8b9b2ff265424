// How far built-in forecasts are off on measured runs that took no part in the levels that forecast
// them: one line for each aim, and what stands behind it.
//
// A run's *left-out* forecast is the model's times one factor learnt from the runs of other
// clusters and other stacks. Its *anchored* one is the model's scaled so that one other run of its
// group comes out as measured; each run in turn is that one, and the median over them is what is
// told: an anchor is never chosen.
//
// Start at `cross_validate()`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "costmodel/fit/builtin_interval.hpp"
#include "tools/reproduce/measured/aims.hpp"
#include "tools/reproduce/measured/default_call.hpp"
#include "tools/reproduce/measured/factor_effects.hpp"
#include "tools/reproduce/measured/groups.hpp"
#include "tools/reproduce/measured/measured_run.hpp"

namespace weir {

// One measured quantity beside its forecasts.
struct JudgedLine {
  const MeasuredRun* run = nullptr;
  bool is_memory = false;
  double published = 0, forecast = 0, left_out = 0;  // as printed; memory in GiB
  double by_default = 0;  // no software named, and nothing chosen seeing its source
  [[nodiscard]] double error() const { return forecast / published - 1; }
  [[nodiscard]] double left_out_error() const { return left_out / published - 1; }
  [[nodiscard]] bool off_by_more_than_2x() const {
    return left_out > 2 * published || published > 2 * left_out;
  }
  [[nodiscard]] std::string quantity() const;
};

struct SourceLine {
  std::string source;
  int rows = 0, forecast = 0, failed = 0, unhealthy = 0;
  std::vector<std::string> without;  // "12: why"
};

struct CrossValidation {
  std::vector<MeasuredRun> runs;
  std::vector<DefaultLine> defaults;  // a source each
  std::vector<FactorEffect> effects;  // a factor each
  std::vector<JudgedLine> lines;
  std::vector<SourceLine> sources;
  std::vector<GroupLine> groups;
  std::vector<AimLine> aims;
  std::vector<std::string> crashes;  // failed runs whose nearest neighbours had room
  std::vector<std::string> notes;
  std::vector<GroupErrors> errors;  // for builtin_interval()'s table

  CrossValidation() = default;
  // Lines point into `runs`.
  CrossValidation(const CrossValidation&) = delete;
  CrossValidation& operator=(const CrossValidation&) = delete;
  CrossValidation(CrossValidation&&) = default;
  CrossValidation& operator=(CrossValidation&&) = default;
};

// Of all sources; a folder of tables may lack some of them. Throws InputError.
[[nodiscard]] CrossValidation cross_validate(const Publications& published,
                                             const ForecastProgress& progress = {});

// Every judged quantity with its plan, for whoever looks for what the errors follow.
[[nodiscard]] std::string to_csv(const CrossValidation& whole);

}  // namespace weir
