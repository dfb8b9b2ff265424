// Buffers that collectives of tensor parallelism hold on to: freed by the host while the device has
// still to pass the collective, they cannot be taken again (recorded streams of PyTorch's caching
// allocator). docs/theory.md 7.4.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "costmodel/memory/memory_rules.hpp"
#include "plan/job/resolve.hpp"

namespace weir {

// The largest of them, in bytes: a whole micro-batch's tokens at the model's hidden size. 0 without
// tensor parallelism.
[[nodiscard]] std::int64_t gathered_bytes(const Plan& plan, const Model& model);

// How many of them `rank` is expected to hold when it has most micro-batches in flight:
// `in_flight`, of the plan's M. At most the stack's `pending`; 0 without tensor parallelism.
[[nodiscard]] double pending_buffers(const ResolvedPlan& loaded, Rank rank, std::int32_t in_flight,
                                     const MemoryRules& rules);

}  // namespace weir
