// The CPU backend: a device is one core, its kernels single-threaded, its matrix products oneDNN's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "exec/device/backend.hpp"

namespace weir {

// A device on core `request.rank` (of those this process may use, round robin). fp32 only.
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(const BackendRequest& request);

}  // namespace weir
