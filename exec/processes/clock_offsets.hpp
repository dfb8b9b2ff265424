// How far the clocks of other hosts are from the leader's: by ping-pong, the trip with the shortest
// round counts, before and after the run, and a straight line between.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/processes/processes.hpp"

namespace weir {

// One estimate: leader's clock = own clock + offset, at own time `at_ns`; true to within
// `uncertainty_ns`, half the round trip, whichever way the trip's time was spent.
struct ClockSample {
  std::int64_t at_ns = 0;
  std::int64_t offset_ns = 0;
  std::int64_t uncertainty_ns = 0;
};

// Between and beyond two samples the clock drifts evenly.
struct ClockLine {
  ClockSample before, after;
  [[nodiscard]] std::int64_t to_leader(std::int64_t own_ns) const;
  [[nodiscard]] std::int64_t uncertainty_ns() const;
};

// One ping-pong as the leader saw it: sent, the other's clock on arrival, answer received.
struct RoundTrip {
  std::int64_t sent_ns = 0, there_ns = 0, back_ns = 0;
};
[[nodiscard]] ClockSample shortest(const std::vector<RoundTrip>& trips);

// Called by all processes at once; at the leader, one sample a process (its own is zero), elsewhere
// empty. A process that shares the leader's clock gets offset 0 unless the ping-pong contradicts
// it.
[[nodiscard]] std::vector<ClockSample> sample_clocks(Processes& processes, Transport::Now now);

}  // namespace weir
