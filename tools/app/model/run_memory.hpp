// Whether this machine can hold what runs of layouts hold, asked before anything is allocated.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace weir {

// Of all processors of a run. A real number, for it may be beyond any machine.
struct RunNeed {
  std::string layout;  // with its rules
  double bytes = 0;
};

// All runs are held at once, and the unsplit computation beside them. Throws RunFailed, which names
// the layout that needs most.
void require_memory(const std::vector<RunNeed>& runs, double unsplit_bytes);

}  // namespace weir
