// The first of the signals that ask work to end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weir {

// Its number; 0: none came.
[[nodiscard]] int heard_signal();

// Within a handler: the first one counts.
void hear_signal(int signal) noexcept;

}  // namespace weir
