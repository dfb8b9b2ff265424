// /proc/stat, getrusage and the monotonic clock, read at one moment.
// SPDX-License-Identifier: Apache-2.0
#include "exec/device/core_use.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "exec/device/cores.hpp"

namespace weir {
namespace {

Seconds seconds_of(const timeval& time) {
  return Seconds(static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec));
}

}  // namespace

std::optional<CoreTimes> core_times(std::string_view stat, const std::vector<int>& wanted,
                                    double ticks) {
  CoreTimes times;
  std::size_t found = 0;
  std::istringstream lines{std::string(stat)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    const bool one_of_them =
        std::ranges::any_of(wanted, [&](int core) { return name == fmt::format("cpu{}", core); });
    if (!one_of_them) continue;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0;
    double steal = 0;
    words >> user >> nice >> system >> idle >> waiting >> interrupts >> soft >> steal;
    if (!words) return std::nullopt;
    times.worked += Seconds((user + nice + system + interrupts + soft) / ticks);
    times.stolen += Seconds(steal / ticks);
    ++found;
  }
  if (found != wanted.size()) return std::nullopt;
  return times;
}

CoreUse core_use(const std::filesystem::path& stat) {
  CoreUse use;
  use.at = std::chrono::steady_clock::now().time_since_epoch();
  const std::vector<int> cores = usable_cores();
  use.cores = static_cast<int>(cores.size());
  std::ifstream in(stat);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  use.all = core_times(text, cores, static_cast<double>(::sysconf(_SC_CLK_TCK)));
  for (const int whose : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    if (::getrusage(whose, &usage) != 0) continue;
    use.own += seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    // A child's are its own affair: PyTorch's ranks have more threads than cores, and lose them to
    // each other a hundred times a second on a quiet machine.
    if (whose == RUSAGE_SELF) use.preemptions = usage.ru_nivcsw;
  }
  return use;
}

Disturbance disturbance_between(const CoreUse& before, const CoreUse& after) {
  Disturbance found;
  found.watched = after.at - before.at;
  found.worked = after.own - before.own;
  if (before.all && after.all && found.watched.count() > 0) {
    // A hypervisor's count may be corrected downwards.
    found.stolen =
        std::max(0.0, (after.all->stolen - before.all->stolen) / (found.watched * after.cores));
  }
  if (found.worked.count() > 0) {
    found.preemptions_per_s =
        static_cast<double>(after.preemptions - before.preemptions) / found.worked.count();
  }
  return found;
}

std::optional<double> cores_of_others(const CoreUse& before, const CoreUse& after) {
  if (!before.all || !after.all || after.at <= before.at) return std::nullopt;
  const Seconds taken = after.all->worked + after.all->stolen - before.all->worked -
                        before.all->stolen - (after.own - before.own);
  return std::max(0.0, taken / (after.at - before.at));
}

}  // namespace weir
