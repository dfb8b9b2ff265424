// What nccl-tests printed: the times of messages and collectives by size. Reads its text (columns
// by the header row, so that old and new versions do) and its JSON (-J). Of a JSON file's
// environment nothing is kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plan/words/units.hpp"

namespace weir {

struct TimedMessage {
  Bytes size{0};  // as nccl-tests counts it
  Seconds time{0};
};

// One test of a file. Out-of-place and in-place times are samples alike; empty messages are left
// out.
struct NcclTest {
  std::string collective;  // "sendrecv", "all_reduce", "all_gather", "reduce_scatter", "alltoall",
                           // "broadcast", ...
  std::string device;      // "NVIDIA H100 80GB HBM3"
  int ranks = 0;
  int nodes = 0;
  double bus_factor =
      1;  // bytes on the busiest link over `size`: 1 for sendrecv, 2 (n - 1) / n for all_reduce
  std::vector<TimedMessage> samples;
};

// Throws InputError: no results, a test that failed, wrong values, times of the CPU.
[[nodiscard]] std::vector<NcclTest> read_nccl_tests(const std::string& text,
                                                    const std::string& file);

// nccl-tests' PERFORMANCE.md: how often a collective's bytes pass its busiest link in a ring of n
// ranks. Unknown collectives: 1.
[[nodiscard]] double bus_factor(std::string_view collective, int ranks);

}  // namespace weir
