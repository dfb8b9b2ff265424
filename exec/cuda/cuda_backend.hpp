// The CUDA backend: a rank is a GPU, or a group of its multiprocessors; its matrix products cuBLASLt's, the rest our
// own kernels. Start at layers.hpp for the passes. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "exec/backend.hpp"

namespace weir {

// Backends of the ranks of a process, which share its devices (exec/cuda/device_sharing; CUDA_VISIBLE_DEVICES chooses
// them). fp32, or tf32 matrix products.
[[nodiscard]] BackendFactory cuda_backends();

// One rank that has the first device to itself, whatever else runs there.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const BackendRequest& request);

}  // namespace weir
