// The CUDA backend: a rank is a GPU, or a group of its multiprocessors; its matrix products
// cuBLASLt's, the rest our own kernels. Start at layers.hpp for the passes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/device_info.hpp"
#include "exec/device/backend.hpp"

namespace weir {

// Throws UsageError where the device cannot compute in this format: capability 7.5 has no bf16
// products.
void require_format(Dtype dtype, const CudaDevice& device);

// Backends of the ranks of a process, which share its devices (exec/cuda/sm/device_sharing;
// CUDA_VISIBLE_DEVICES chooses them). fp32, tf32 matrix products, or bf16 with fp32 accumulation
// and master weights.
[[nodiscard]] BackendFactory cuda_backends();

}  // namespace weir
