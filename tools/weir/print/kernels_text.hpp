// What `weir run --kernels` prints of the kernels for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "traces/kernels.hpp"

namespace weir {

// By name and by kind of action; long names are cut in the middle.
[[nodiscard]] std::string kernels_text(const Trace& trace, const KernelTrace& kernels);

}  // namespace weir
