// How the cores that this process may use spend their time, as Linux counts it: what others take
// of them, and what this process has of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "plan/words/units.hpp"
#include "traces/disturbance.hpp"

namespace weir {

// Of some cores together, since the machine began.
struct CoreTimes {
  Seconds worked{0};  // for anybody: users, the system, interrupts
  Seconds stolen{0};  // that a hypervisor gave to other virtual machines
};

// Counters at one moment; differences say something.
struct CoreUse {
  Seconds at{0};  // by the monotonic clock
  int cores = 1;
  std::optional<CoreTimes> all;  // of the cores; nothing where the kernel does not say
  Seconds own{0};                // that threads of this process and its ended children computed
  std::int64_t preemptions = 0;  // of this process: involuntary context switches (getrusage)
};

// The lines "cpuN user nice system idle iowait irq softirq steal ..." of /proc/stat, for the cores
// in `wanted`, at `ticks` a second; nothing where one of the cores is missing. What a guest used
// counts among user and nice already.
[[nodiscard]] std::optional<CoreTimes> core_times(std::string_view stat,
                                                  const std::vector<int>& wanted, double ticks);

[[nodiscard]] CoreUse core_use(const std::filesystem::path& stat = "/proc/stat");

// From one moment to the next; without spread.
[[nodiscard]] Disturbance disturbance_between(const CoreUse& before, const CoreUse& after);
// How many of the cores others kept busy, or had stolen; nothing where the kernel does not say.
[[nodiscard]] std::optional<double> cores_of_others(const CoreUse& before, const CoreUse& after);

}  // namespace weir
