// Ping-pong between the leader and each other process.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/clock_offsets.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

namespace weir {
namespace {

constexpr int kTag = 1;
constexpr int kTrips = 20;

std::span<std::byte> bytes_of(std::int64_t& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

std::vector<RoundTrip> ask(Processes& processes, int process, Transport::Now now) {
  std::vector<RoundTrip> trips(kTrips);
  for (RoundTrip& trip : trips) {
    const Processes::Ticket answer =
        processes.start_receive(process, kTag, bytes_of(trip.there_ns));
    // The receive stands before the clock is read, so that its start is not in the round trip.
    trip.sent_ns = now();
    processes.wait(processes.start_send(process, kTag, {}));
    processes.wait(answer);
    trip.back_ns = now();
  }
  return trips;
}

void answer(Processes& processes, Transport::Now now) {
  for (int trip = 0; trip < kTrips; ++trip) {
    processes.wait(processes.start_receive(0, kTag, {}));
    std::int64_t time = now();
    processes.wait(processes.start_send(0, kTag, bytes_of(time)));
  }
}

}  // namespace

ClockSample shortest(const std::vector<RoundTrip>& trips) {
  assert(!trips.empty());
  const auto best =
      std::min_element(trips.begin(), trips.end(), [](const RoundTrip& a, const RoundTrip& b) {
        return a.back_ns - a.sent_ns < b.back_ns - b.sent_ns;
      });
  const std::int64_t round = best->back_ns - best->sent_ns;
  return {best->there_ns, best->sent_ns + round / 2 - best->there_ns, (round + 1) / 2};
}

std::int64_t ClockLine::to_leader(std::int64_t own_ns) const {
  const std::int64_t span = after.at_ns - before.at_ns;
  if (span <= 0) return own_ns + before.offset_ns;
  const double drift =
      static_cast<double>(after.offset_ns - before.offset_ns) / static_cast<double>(span);
  return own_ns + before.offset_ns +
         std::llround(drift * static_cast<double>(own_ns - before.at_ns));
}

std::int64_t ClockLine::uncertainty_ns() const {
  return std::max(before.uncertainty_ns, after.uncertainty_ns);
}

std::vector<ClockSample> sample_clocks(Processes& processes, Transport::Now now) {
  if (processes.index() != 0) {
    answer(processes, now);
    return {};
  }
  std::vector<ClockSample> samples(static_cast<std::size_t>(processes.count()));
  for (int process = 1; process < processes.count(); ++process) {
    ClockSample& sample = samples[static_cast<std::size_t>(process)];
    sample = shortest(ask(processes, process, now));
    // One kernel, one clock: an offset within the uncertainty is the trip's, not the clocks'.
    const bool shared = processes.location(process).clock == processes.location(0).clock;
    if (shared && std::abs(sample.offset_ns) <= sample.uncertainty_ns)
      sample = {sample.at_ns, 0, 0};
  }
  return samples;
}

}  // namespace weir
