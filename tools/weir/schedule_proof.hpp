// `weir schedule X --grid K=2..16,M=1..64 --prove`: which (K, M) of a schedule can deadlock on
// which transport.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/weir/commands.hpp"
#include "tools/weir/schedule_source.hpp"

namespace weir {

// Prints, for each (K, M) of `grid` ("K=2..16,M=1..64", either part a list or a range): whether the
// schedule is free of deadlock with `slots` receive slots an edge, by rendezvous and in NCCL
// groups; the fewest slots that are enough; the peak in flight; and the step time over its lower
// bound at F = I = W without communication. The smallest (K, M) that a transport fails on is
// followed by its shortest cycle. Throws UsageError for a grid that cannot be read.
void prove_grid(const ScheduleSource& source, const std::string& grid, int slots,
                const GlobalOptions& global);

}  // namespace weir
