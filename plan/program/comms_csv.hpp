// A lowered program as text in PyTorch's pipelining dialect.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/program/program.hpp"

namespace weir {

// PyTorch's "compute_comms": receives before and sends after what needs and makes them, UNSHARD at
// the start, and each stage's REDUCE_GRAD and RESHARD after its last gradient. R and the optimizer
// have no word there and are left out.
[[nodiscard]] std::string to_comms_csv(const Program& program);

}  // namespace weir
