// The optimizer's update of a stage's parameters on CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "exec/cuda/layers.hpp"

namespace weir::cuda {

// All of one optimizer and step. Throws RunFailed for more copies of a gradient than a kernel sums.
void update(std::span<const UpdateCall> calls, const Workbench& on);

// Backend::squares_room, launch_squares, launch_factor, sum_of_squares and launch_sums. The host
// waits for the fourth alone, which is made in the products' scratch memory.
[[nodiscard]] std::int64_t squares_room(std::int64_t elements);
void squares(const SquaresCall& call, cudaStream_t stream);
void factor(const FactorCall& call, Workbench& on);
[[nodiscard]] double sum_of_squares(std::span<const Tensor> gradients, std::int64_t elements,
                                    const Workbench& on);
void ordered_sums(const OrderedSums& sums, cudaStream_t stream);

}  // namespace weir::cuda
