// The optimizer's update of a stage's parameters on CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "exec/cuda/layers.hpp"

namespace weir::cuda {

// All of one optimizer and step. Throws RunFailed for more copies of a gradient than a kernel sums.
void update(std::span<const UpdateCall> calls, const Workbench& on);

}  // namespace weir::cuda
