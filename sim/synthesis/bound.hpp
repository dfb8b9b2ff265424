// How soon a step can end at best.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sim/synthesis/problem.hpp"

namespace weir {

// No order ends sooner, whatever the room: for each stage its head, all work of its rank or its F
// and I and the way back to the first stage, whose W is last; the longest chain. With the room: a
// stage that keeps n micro-batches begins the (n + 1)-th when the first has been down to the last
// stage and back, and those on their way meet others (sim/synthesis/crossing_bound).
[[nodiscard]] std::int64_t synthesis_bound_ns(const SynthesisProblem& problem);

}  // namespace weir
