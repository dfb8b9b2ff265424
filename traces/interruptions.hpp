// What went otherwise once: an action that something else on its machine held up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/words/units.hpp"
#include "traces/trace.hpp"

namespace weir {

// An action above this many times the median of its rank's and kind's in its step is interrupted.
inline constexpr double kInterrupted = 3;

struct Interruption {
  std::int32_t step = 0;
  Span action;
  Seconds median{0};  // of its rank's and kind's in the step
};

// In every step, of computing actions. By step, then operation.
[[nodiscard]] std::vector<Interruption> interruptions(const Trace& measured);

[[nodiscard]] bool is_interrupted(const std::vector<Interruption>& all, std::int32_t step);

// "0F7 took 340 ms where its rank's median is 57.9 ms"
[[nodiscard]] std::string describe(const Interruption& interruption);

}  // namespace weir
