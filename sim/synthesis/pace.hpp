// When micro-batches may begin so that none waits for another on its way, where room is scarce.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "sim/synthesis/problem.hpp"

namespace weir {

// Of a chain whose first stage has room for n micro-batches, fewer than all: n starts a period,
// repeated, with which F and I of all that are on their way are never due on a rank at one time,
// and each W has a place between before its room is wanted again. By micro-batch, one list for each
// of some periods from the shortest possible one up; empty where ranks have several stages, or
// there is room for one or for all.
[[nodiscard]] std::vector<std::vector<std::int64_t>> paces_of(const SynthesisProblem& problem);

}  // namespace weir
