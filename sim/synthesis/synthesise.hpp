// The shortest schedule that can be found for stages, messages and memory as they are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/synthesis/problem.hpp"

namespace weir {

struct SynthesisEffort {
  std::int64_t nodes = 300'000;       // of the exact search
  std::int64_t swapped = 30'000'000;  // actions timed by the swaps
};

struct Synthesis {
  Schedule schedule;  // "auto", or the catalogue's own where that is the shortest
  std::int64_t makespan_ns = 0;
  std::int64_t lower_bound_ns = 0;  // no order within the room ends sooner
  [[nodiscard]] bool optimal() const { return makespan_ns == lower_bound_ns; }
  [[nodiscard]] double gap() const {
    return static_cast<double>(makespan_ns) / static_cast<double>(lower_bound_ns) - 1;
  }
};

// The shortest of: published schedules of this shape that keep to the room, a portfolio of greedy
// rules, swaps of neighbours in the best of both, the exact search where stages times micro-batches
// are at most 32, and, where that is not the end of it, greedy rules at a pace (sim/synthesis/pace)
// and the same for few micro-batches with its steady part repeated. nullopt: no order keeps to the
// room (a micro-batch alone is more).
[[nodiscard]] std::optional<Synthesis> synthesise(const SynthesisProblem& problem,
                                                  const SynthesisEffort& effort = {});

}  // namespace weir
