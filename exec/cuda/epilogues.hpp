// Which epilogues of a block's products pay: those that are faster than the product with a pass of
// our own behind it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/blas/fixed_choices.hpp"
#include "exec/cuda/blas/launch_timer.hpp"
#include "exec/cuda/blas/matmul.hpp"
#include "plan/model/model.hpp"

namespace weir::cuda {

// Takes the others away, so that the block's passes take the ways apart. Precondition: the block's
// products are prepared and timed.
void keep_faster_epilogues(const TransformerShape& block, std::int64_t batch,
                           std::int64_t seq_length, Matmul& matmul, LaunchTimer& timer,
                           FixedChoices& fixed);

// GELU's slope fused to its product, to be timed with the others. The library's own order is no
// guide to it: on an H100 cuBLASLt 13.1 puts first an algorithm that runs the slope as a pass of
// its own, of 180 us where ours takes 50 (MEASURED.md), so untimed it is not taken.
void offer_gelu_gradient(const TransformerShape& block, std::int64_t batch, std::int64_t seq_length,
                         Matmul& matmul);

}  // namespace weir::cuda
