// Which software measured steps look like, where nobody said which it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"

namespace weir::app {

struct MeasuredPlan {
  const ResolvedPlan* plan;
  Seconds measured{0};
  Seconds forecast{0};  // by the cluster's stack
};

// One line, where the cluster's stack is a call's default, the steps are further from its forecasts
// than forecasts of named software are off, and those of a stack that is known are not: one scale
// of all times would blame for it what that software does differently, and carry it to plans of
// which other parts are larger.
[[nodiscard]] std::optional<std::string> likelier_software(std::span<const MeasuredPlan> plans,
                                                           const Cluster& cluster);

}  // namespace weir::app
