// Steps of a trace, and traces one behind the other.
// SPDX-License-Identifier: Apache-2.0
#include "traces/trace.hpp"

#include <algorithm>

namespace weir {

IndexedView<OperationId, const Span> Trace::of_step(std::int32_t step) const {
  const auto first = std::partition_point(spans.begin(), spans.end(),
                                          [step](const Span& span) { return span.step < step; });
  const auto last = std::partition_point(first, spans.end(),
                                         [step](const Span& span) { return span.step == step; });
  return IndexedView<OperationId, const Span>({first, last});
}

void append(Trace& trace, const Trace& later) {
  Nanoseconds end{0};
  for (const StepWindow& step : trace.steps) end = std::max(end, step.end);
  // The later trace begins where the last step ended, whatever its own clock said.
  const Nanoseconds shift = later.steps.empty() ? Nanoseconds(0) : end - later.steps.front().start;
  const auto before = static_cast<std::int32_t>(trace.steps.size());
  for (const StepWindow& step : later.steps)
    trace.steps.push_back({step.start + shift, step.end + shift});
  for (Span span : later.spans) {
    span.step += before;
    span.start += shift;
    span.end += shift;
    trace.spans.push_back(span);
  }
  for (std::size_t c = 0; c < later.counters.size(); ++c) {
    for (Counter::Sample sample : later.counters[c].samples) {
      sample.time += shift;
      trace.counters[c].samples.push_back(sample);
    }
  }
}

}  // namespace weir
