// Which core a worker runs on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weir::cpu {

// The calling thread stays on the n-th core of those this process may use, round robin, so that
// measured times mean that core.
void pin_to_core(int n);

}  // namespace weir::cpu
