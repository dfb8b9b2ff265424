// How soon a step can end where every rank has one stage and room is scarce: on their ways down and
// back micro-batches meet, and one of two that meet on a rank must wait (docs/theory.md 4.4).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "sim/synthesis/problem.hpp"

namespace weir {

// No order within the room ends sooner. Of every n micro-batches, n being what a stage has room
// for, two are looked at, as if the others were not there: each begins when the one n before it has
// left the stage, and meets the one after it, which begins while it is on its way. `head_ns`, by
// stage: before its first F. `tail_ns`: after its last I until the end of the step. 0 where ranks
// have several stages, or no stage has room for two and for fewer than all.
[[nodiscard]] std::int64_t crossing_bound_ns(const SynthesisProblem& problem,
                                             std::span<const std::int64_t> head_ns,
                                             std::span<const std::int64_t> tail_ns);

}  // namespace weir
