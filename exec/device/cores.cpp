// The cores of this machine, as the kernel's affinity mask of this process counts them.
// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cores.hpp"

#include <sched.h>

#include <algorithm>

namespace weir {

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace weir
