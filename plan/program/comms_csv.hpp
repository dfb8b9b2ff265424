// A lowered program as text in PyTorch's pipelining dialect.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/program/program.hpp"

namespace weir {

// PyTorch's "compute_comms" (2.15), of a program that cannot deadlock. UNSHARD stands at the start;
// each message is put into both its ranks' rows when what it carries was made, a receive as early
// as that; WAIT_SEND_F follows the backward of the same micro-batch, WAIT_SEND_B the row;
// REDUCE_GRAD, WAIT_REDUCE_GRAD and RESHARD follow a stage's last gradient. R and the optimizer
// have no word there and are left out, and overlapped pairs stand one after the other.
[[nodiscard]] std::string to_comms_csv(const Program& program);

}  // namespace weir
