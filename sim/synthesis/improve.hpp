// From good orders to better ones, and from few micro-batches to many.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "sim/synthesis/problem.hpp"

namespace weir {

// Swaps neighbours on a rank that run back to back, while that makes the step shorter and keeps to
// the room; F, I and W of a micro-batch stay in order, and so do micro-batches of a stage. Ends
// after so many actions timed. Precondition: the words can be timed.
void swap_neighbours(const SynthesisProblem& problem, Words& words, std::int64_t most_actions);

// The words of fewer micro-batches, `few`, stretched to the problem's: of each rank a middle part
// in which every stage does `period` F, I and W, repeated. The part begins where the rank has begun
// `from` micro-batches' I on its first stage. nullopt: there is no such part, its ends leave it
// with other numbers, it does not divide the difference, or ranks would wait for each other.
[[nodiscard]] std::optional<Words> tiled_words(const SynthesisProblem& problem, const Words& few,
                                               std::int32_t few_microbatches, std::int32_t from,
                                               std::int32_t period);

}  // namespace weir
