// Which kernels a device ran within each action, and when. The device's own recorder (CUPTI on
// NVIDIA's) knows for every kernel in which action it was launched, but keeps a clock of its own;
// the trace knows when each action began and ended. Joining the two needs no third clock: a kernel
// lies within its action, and that alone says how far the recorder's clock must be moved, and how
// surely. Start at join_kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "traces/trace.hpp"

namespace weir {

enum class DeviceWork : std::uint8_t { kernel, copy, fill };
[[nodiscard]] const char* to_string(DeviceWork work);

// One piece of work as the recorder saw it.
struct KernelRecord {
  std::string name;
  DeviceWork work = DeviceWork::kernel;
  std::int32_t step = 0;  // of the trace
  std::string action;     // that it was launched in: "2F0"
  Nanoseconds start{0};   // by the recorder's clock
  Nanoseconds end{0};
};

struct KernelRecords {
  std::vector<KernelRecord> records;  // in any order
  std::int64_t outside = 0;           // ran, but were launched in no action
  std::int64_t untimed = 0;           // ran, but the device could not say when
  std::int64_t dropped =
      0;  // records of any kind that were lost, at least: for want of room, or never completed
};

// One piece of work on the trace's clock.
struct KernelSpan {
  std::string name;
  DeviceWork work = DeviceWork::kernel;
  std::size_t action = 0;  // whose it is: index into Trace::spans
  Nanoseconds start{0};
  Nanoseconds end{0};

  bool operator==(const KernelSpan&) const = default;
};

struct KernelTrace {
  std::vector<KernelSpan> spans;                       // ordered by (step, rank, start)
  std::int64_t outside = 0, untimed = 0, dropped = 0;  // as in KernelRecords
  // How well the clocks are joined, the worst of all steps and ranks: a kernel's place may be off
  // by `uncertainty` either way, and sticks out of its action by up to `overhang`, which is 0 where
  // the two clocks agree on every action.
  Nanoseconds uncertainty{0};
  Nanoseconds overhang{0};
};

// Moves the records onto the trace's clock, one shift d for each step and rank. A record [s, e] of
// an action [S, E] asks for S - s <= d <= E - e; d is the middle of what all of them leave, and
// half of what is left its uncertainty. Where they leave nothing, d is the middle of the
// contradiction, and half of that the overhang. Records of actions that the trace does not have are
// counted as outside.
[[nodiscard]] KernelTrace join_kernels(const Trace& trace, KernelRecords recorded);

}  // namespace weir
