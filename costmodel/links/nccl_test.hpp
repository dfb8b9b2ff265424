// What one of nccl-tests' tests measured: times of a collective or of messages by size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
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

// nccl-tests' PERFORMANCE.md: how often a collective's bytes pass its busiest link in a ring of n
// ranks. Unknown collectives: 1.
[[nodiscard]] double bus_factor(std::string_view collective, int ranks);

// "all_reduce" of "./build/all_reduce_perf" and "all_reduce_perf_mpi".
[[nodiscard]] std::string collective_of(const std::string& command);

// Fills in what follows from devices, hosts and name, and sorts the samples.
void complete_test(NcclTest& test, int hosts, std::string collective, const std::string& file);

}  // namespace weir
