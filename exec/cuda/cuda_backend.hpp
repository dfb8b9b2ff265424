// The CUDA backend: every rank is a stream of one GPU, its matrix products cuBLASLt's, the rest our own kernels. Start
// at layers.hpp for the passes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "exec/backend.hpp"

namespace weir {

// A stream of the first device (CUDA_VISIBLE_DEVICES chooses which that is). fp32, or tf32 matrix products.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const BackendRequest& request);

}  // namespace weir
