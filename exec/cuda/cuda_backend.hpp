// The CUDA backend: every rank is a stream of one GPU, its matrix products cuBLASLt's, the rest our own kernels. Start
// at layers.hpp for the passes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "exec/backend.hpp"
#include "exec/cuda/device_info.hpp"

namespace weir {

// Throws UsageError where the device cannot compute in this format: capability 7.5 has no bf16 products.
void require_format(Dtype dtype, const CudaDevice& device);

// A stream of the first device (CUDA_VISIBLE_DEVICES chooses which that is). fp32, tf32 matrix products, or bf16 with
// fp32 accumulation and master weights.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const BackendRequest& request);

}  // namespace weir
