// How long each message is, known from the plan before anything is sent.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/job/resolve.hpp"

namespace weir {

// Bytes of the message of each send and receive, rounded up to 64 as tensors are; index =
// OperationId, 0 for all others. A forward message and the gradient that comes back are equal.
[[nodiscard]] std::vector<std::int64_t> message_bytes(const ResolvedPlan& loaded);

}  // namespace weir
