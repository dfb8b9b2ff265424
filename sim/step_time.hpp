// How long a plan's step takes by several costs, and nothing else of its forecasts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "costmodel/table/costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "sim/engine/compiled_program.hpp"

namespace weir {

// The step_time of forecast() for buffered transfers, without its memory, trace and accounts, which
// take most of the work where a step has millions of operations. The plan's program is compiled
// once for all costs.
class StepTimes {
 public:
  // The plan must outlive it. Precondition: forecast()'s.
  explicit StepTimes(const ResolvedPlan& resolved);
  [[nodiscard]] Seconds by(const Costs& costs, const Cluster& cluster) const;

 private:
  const ResolvedPlan& resolved_;
  std::variant<CompiledProgram, NotCompiled> compiled_;
};

}  // namespace weir
