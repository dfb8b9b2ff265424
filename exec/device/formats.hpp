// Which number formats a backend computes in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "exec/device/backend.hpp"

namespace weir {

// The formats that the backend has kernels for, "fp32, tf32 or bf16", where this is none of them;
// nothing where it is one. Whether the device is here and has such units is the backend's to say.
[[nodiscard]] std::optional<std::string_view> formats_instead_of(Dtype dtype, BackendKind backend);

}  // namespace weir
