// The optimizer's update of one parameter on CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/layers.hpp"

namespace weir::cuda {

// Throws RunFailed for more copies of a gradient than a kernel sums.
void update(const UpdateCall& call, const Workbench& on);

}  // namespace weir::cuda
