// A thread's own time and preemptions, as the kernel counts them.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/core_clock.hpp"

#include <sys/resource.h>

#include <ctime>

namespace weir::cpu {

Seconds core_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return Seconds(static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec));
}

std::int64_t preemptions() {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

}  // namespace weir::cpu
