// Which epilogues of a block's products pay: those that are faster than the product with a pass of
// our own behind it. And whether a head's products pay whole.
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

// A head's products whole, beside the parts that are prepared, to be timed with them ...
void offer_whole_head(const HeadShape& head, std::int64_t batch, std::int64_t seq_length,
                      Matmul& matmul);
// ... and afterwards taken away where the parts together are faster.
void keep_faster_head(const HeadShape& head, std::int64_t batch, std::int64_t seq_length,
                      Matmul& matmul, FixedChoices& fixed);

}  // namespace weir::cuda
