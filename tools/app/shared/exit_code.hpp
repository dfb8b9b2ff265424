// The command's exit codes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/text/ending.hpp"

namespace weir {

// 0 done, 2 usage, 3 bad input, 4 no feasible plan, 5 missing component, 6 run failed, by what else
// ever.
[[nodiscard]] int exit_code(EndKind kind);

}  // namespace weir
