// Whether somebody named the software of a machine, or a call took its default.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/job/stack.hpp"

namespace weir {

// What is noted of a stack's name where nobody named it.
void set_assumed(Stack& stack);
[[nodiscard]] bool is_assumed(const Stack& stack);

}  // namespace weir
