// Whether kernels can be recorded here, and who does it: CUPTI, where this build has its headers
// and this machine the library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "exec/cuda/driver/cuda_fact.hpp"
#include "exec/device/kernel_watch.hpp"

namespace weir {

// Throws MissingComponent with the reason, RunFailed where there is one already.
[[nodiscard]] std::unique_ptr<KernelWatch> make_kernel_watch();

// Needs no device, and does not say that a device lets itself be watched: that is known when
// recording begins.
[[nodiscard]] CudaFact kernel_recording_fact();

}  // namespace weir
