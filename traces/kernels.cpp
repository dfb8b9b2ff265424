// Recorded kernels joined with the actions that launched them, on the trace's clock.
// SPDX-License-Identifier: Apache-2.0
#include "traces/kernels.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace weir {
namespace {

using Place = std::pair<std::int32_t, std::int32_t>;  // step and rank

// The shifts that all records of a place allow.
struct Shifts {
  Nanoseconds least = Nanoseconds::min(), most = Nanoseconds::max();

  void allow(const KernelRecord& record, const Span& action) {
    least = std::max(least, action.start - record.start);
    most = std::min(most, action.end - record.end);
  }
  [[nodiscard]] Nanoseconds middle() const { return least + (most - least) / 2; }
};

Place place_of(const Span& span) { return {span.step, span.rank.value}; }

// Receives launch nothing, and two of them may bear one name on two ranks.
std::map<std::pair<std::int32_t, std::string>, std::size_t> launching_spans(const Trace& trace) {
  std::map<std::pair<std::int32_t, std::string>, std::size_t> spans;
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    if (span.lane != LaneKind::receive)
      spans.emplace(std::pair(span.step, to_string(span.action)), i);
  }
  return spans;
}

}  // namespace

const char* to_string(DeviceWork work) {
  switch (work) {
    case DeviceWork::kernel:
      return "kernel";
    case DeviceWork::copy:
      return "copy";
    default:
      return "fill";
  }
}

KernelTrace join_kernels(const Trace& trace, KernelRecords recorded) {
  KernelTrace joined;
  joined.outside = recorded.outside;
  joined.untimed = recorded.untimed;
  joined.dropped = recorded.dropped;
  const auto launching = launching_spans(trace);
  std::map<Place, Shifts> shifts;
  for (KernelRecord& record : recorded.records) {
    const auto found = launching.find({record.step, record.action});
    if (found == launching.end()) {
      ++joined.outside;
      continue;
    }
    const Span& action = trace.spans[found->second];
    // A kernel lies within its action: each record narrows the shift between the device's clock and
    // the host's, per step and rank, as clocks drift.
    shifts[place_of(action)].allow(record, action);
    joined.spans.push_back(
        {std::move(record.name), record.work, found->second, record.start, record.end});
  }
  for (const auto& [place, allowed] : shifts) {
    // Negative where no shift fits all: by half of that some kernel hangs over its action.
    const Nanoseconds half = (allowed.most - allowed.least) / 2;
    joined.uncertainty = std::max(joined.uncertainty, half);
    joined.overhang = std::max(joined.overhang, -half);
  }
  const auto order = [&](const KernelSpan& kernel) {
    const Span& action = trace.spans[kernel.action];
    return std::tuple(place_of(action), kernel.start, kernel.action);
  };
  for (KernelSpan& kernel : joined.spans) {
    const Nanoseconds shift = shifts.at(place_of(trace.spans[kernel.action])).middle();
    kernel.start += shift;
    kernel.end += shift;
  }
  std::ranges::stable_sort(joined.spans, {}, order);
  return joined;
}

}  // namespace weir
