// On which multiprocessors a kernel runs: asked of the hardware.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace weir {

constexpr std::uint32_t kMostMultiprocessors = 1024;  // more than any device has

// Launches `blocks` blocks that each stay for a while and count themselves in seen[number of their
// multiprocessor]; `seen` has kMostMultiprocessors elements, zero before.
void note_multiprocessors(std::uint32_t* seen, int blocks, cudaStream_t stream);

}  // namespace weir
