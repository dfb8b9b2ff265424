// Dropout: the masks of exec/training/philox, drawn again wherever they are needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

// y[i] = x[i] * mask(first + i). Without an active mask the factor is 1; y may be x.
template <class E>
void dropout(const StepMask& mask, std::uint64_t first, const E* x, std::int64_t n, E* y,
             cudaStream_t stream);

// y[i] = y[i] * mask(i) + x[i].
template <class E>
void dropout_add(const StepMask& mask, const E* x, std::int64_t n, E* y, cudaStream_t stream);

}  // namespace weir::cuda
