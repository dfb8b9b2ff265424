// Our own kernels of attention without its s x s probabilities (FlashAttention: Dao et al.,
// NeurIPS 2022), for every format, dropout and head width that cuDNN's do not take. Arithmetic is
// fp32 on the ordinary units, whatever the tensors' format. No atomics and one order of every sum,
// so results repeat bit for bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "exec/cuda/kernels/attention_shape.hpp"

namespace weir::cuda {

// fp32, tf32 (computed in fp32) and bf16, d at most 128, at most 65535 heads and as many samples.
[[nodiscard]] bool flash_suits(const AttentionShape& shape);

// Precondition: flash_suits(shape).
void flash_forward(const AttentionShape& shape, const AttentionForward& call, cudaStream_t stream);
void flash_backward(const AttentionShape& shape, const AttentionBackward& call,
                    cudaStream_t stream);

}  // namespace weir::cuda
