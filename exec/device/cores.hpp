// The cores of this machine that the process may use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace weir {

// Their numbers, ascending; {0} where the kernel does not say.
[[nodiscard]] std::vector<int> usable_cores();
// At least 1.
[[nodiscard]] int available_cores();

}  // namespace weir
