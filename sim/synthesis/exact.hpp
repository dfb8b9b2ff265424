// The best order there is, where the problem is small.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "sim/synthesis/problem.hpp"

namespace weir {

struct ExactWords {
  std::optional<Words> words;  // none: none is shorter than what was known, or was found in time
  std::int64_t makespan_ns = 0;
  bool finished = false;  // the search was: what it says is proved
  std::int64_t nodes = 0;
};

// Branch and bound over schedules in which no action could start earlier without delaying another
// (Giffler and Thompson, Operations Research 8(4), 1960): of all actions that may be next the one
// that would end first, its rank, and there each that could start before that end. Micro-batches of
// a stage stay in order, for they are alike. Room bounds the order: an F that would end first may
// also be left for later, so that what it would take is free until then. A partial schedule is cut
// off by its bound, and by another of the same actions of which nothing is later. `below`: only
// shorter ones are of interest.
[[nodiscard]] ExactWords exact_words(const SynthesisProblem& problem, std::int64_t below,
                                     std::int64_t most_nodes);

}  // namespace weir
