// Into which equal, disjoint groups a device's multiprocessors divide. Arithmetic only: needs no
// device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace weir {

// A group has at least `least` multiprocessors, and a multiple of `multiple`.
struct SmGranularity {
  int least = 1;
  int multiple = 1;
  bool operator==(const SmGranularity&) const = default;
};

// By compute capability: 7.x 2 and 2, 8.x 4 and 2, from 9.0 on 8 and 8. A device that states its
// own (fields minSmPartitionSize and smCoscheduledAlignment of its resource) is believed instead.
[[nodiscard]] SmGranularity sm_granularity(int major);

struct SmSplit {
  int groups = 0;
  int size = 0;   // multiprocessors of each group
  int total = 0;  // of the device
  int even = 0;   // of each group, were the device's clusters all alike; 0: as `size`
  [[nodiscard]] int left() const { return total - groups * size; }  // in no group
  bool operator==(const SmSplit&) const = default;
};

// The largest equal groups; nullopt where not even the smallest fit.
[[nodiscard]] std::optional<SmSplit> equal_split(int multiprocessors, int groups,
                                                 SmGranularity granularity);

// Where a rank computes when `ranks` ranks of a process use `devices` devices: rank r on device r
// where there are enough, otherwise shared round-robin.
struct RankPlace {
  int device = 0;
  int group = 0;   // its number among the ranks on that device
  int groups = 1;  // that every device is divided into, so that all ranks are equal
  bool operator==(const RankPlace&) const = default;
};
[[nodiscard]] RankPlace place_rank(int rank, int ranks, int devices);

}  // namespace weir
