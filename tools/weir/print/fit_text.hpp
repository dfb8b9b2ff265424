// Whether a plan fits, as people read it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sim/forecast/forecast.hpp"

namespace weir {

// "memory: 61.20 GiB expected, 68.00 GiB at most, of 79.10 GiB: fits". Precondition: a limit.
[[nodiscard]] std::string describe_fit(const Forecast& forecast);

}  // namespace weir
