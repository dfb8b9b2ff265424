// What became of the recorded NCCL's communicators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace weir::recorded {

// That were aborted before they were finalised, since the program began.
[[nodiscard]] std::int64_t aborted_communicators();

}  // namespace weir::recorded
