// The one line in which a file ends that costs too much.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/bounds/budget.hpp"

#include <fmt/format.h>

namespace weir {

void Budget::refuse(const char* of) const {
  throw BudgetError(file_, "", fmt::format("takes too many {} to be followed", of));
}

}  // namespace weir
