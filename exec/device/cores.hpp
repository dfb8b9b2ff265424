// The cores of this machine that the process may use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weir {

// At least 1.
[[nodiscard]] int available_cores();

}  // namespace weir
