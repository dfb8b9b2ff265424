// Pins threads by the kernel's affinity mask.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/core.hpp"

#include <sched.h>

#include <vector>

namespace weir::cpu {

void pin_to_core(int n) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  if (cores.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores[static_cast<std::size_t>(n) % cores.size()], &one);
  sched_setaffinity(0, sizeof(one), &one);  // the calling thread only
}

}  // namespace weir::cpu
