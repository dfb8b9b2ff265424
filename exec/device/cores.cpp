// The cores of this machine, as the kernel's affinity mask of this process counts them.
// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cores.hpp"

#include <sched.h>

namespace weir {

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

int available_cores() { return static_cast<int>(usable_cores().size()); }

}  // namespace weir
