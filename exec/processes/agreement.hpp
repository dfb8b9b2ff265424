// Whether all processes of a run were given the same: a plan file of yesterday on one host, another
// seed, other weights would be trained on by some of them, or be waited for by the others for ever.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "exec/processes/processes.hpp"

namespace weir {

// What must be the same, by the name that people know it by, in an order that all share: the value,
// or the hash of what is long.
using WhatIsRun = std::vector<std::pair<std::string, std::string>>;

// Collective. Process 0 throws UsageError, naming the first process that differs from it and in
// what; the others Transport::Stopped then, as they do once a process has failed.
void require_agreement(Processes& processes, const WhatIsRun& own);

}  // namespace weir
