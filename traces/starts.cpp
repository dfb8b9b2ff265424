// Starts of actions, joined by rank and name.
// SPDX-License-Identifier: Apache-2.0
#include "traces/starts.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "traces/stats.hpp"

namespace weir {
namespace {

using RankAction = std::pair<Rank, Action>;

struct Times {
  std::vector<double> starts, durations;  // one of each a step
};

bool is_named(const Span& span) {
  return span.lane == LaneKind::compute && has_microbatch(span.action.kind) &&
         span.action.kind != ActionKind::R;
}

Seconds length_of(const StepWindow& step) { return to_seconds(step.end - step.start); }

// Since its step's.
Seconds start_of(const Trace& trace, const Span& span) {
  return to_seconds(span.start - trace.steps[static_cast<std::size_t>(span.step)].start);
}

std::map<RankAction, Times> times_of(const Trace& trace) {
  std::map<RankAction, Times> all;
  for (const Span& span : trace.spans) {
    if (!is_named(span)) continue;
    Times& times = all[{span.rank, span.action}];
    times.starts.push_back(start_of(trace, span).count());
    times.durations.push_back(to_seconds(span.duration()).count());
  }
  return all;
}

}  // namespace

StartComparison compare_starts(const Trace& predicted, const Trace& measured) {
  StartComparison result;
  result.predicted = length_of(predicted.steps.front());
  std::vector<double> lengths;
  for (const StepWindow& step : measured.steps) lengths.push_back(length_of(step).count());
  result.measured = Seconds(median(std::move(lengths)));
  const auto expected = times_of(predicted);
  for (const auto& [key, seen] : times_of(measured)) {
    const auto found = expected.find(key);
    if (found == expected.end()) continue;
    const Times& times = found->second;
    result.actions.push_back({key.first, key.second, Seconds(times.starts.front()),
                              Seconds(median(seen.starts)), Seconds(times.durations.front()),
                              Seconds(median(seen.durations))});
  }
  std::ranges::stable_sort(result.actions, {}, [](const ActionStart& a) {
    return std::pair(a.rank, a.predicted_start);
  });
  return result;
}

std::vector<double> start_errors(const Trace& predicted, const Trace& measured, std::int32_t step) {
  std::map<RankAction, Seconds> expected;
  for (const Span& span : predicted.spans) {
    if (is_named(span)) expected[{span.rank, span.action}] = start_of(predicted, span);
  }
  const Seconds length = length_of(measured.steps[static_cast<std::size_t>(step)]);
  std::vector<double> errors;
  for (const Span& span : measured.of_step(step)) {
    if (!is_named(span)) continue;
    const auto found = expected.find({span.rank, span.action});
    if (found != expected.end())
      errors.push_back(std::abs((found->second - start_of(measured, span)) / length));
  }
  return errors;
}

StartErrors summary(std::vector<double> errors) {
  std::ranges::sort(errors);
  const double count = static_cast<double>(errors.size());
  // By nearest rank (docs/theory.md 9.3).
  const auto place = static_cast<std::size_t>(std::ceil(0.95 * count));
  return {static_cast<int>(errors.size()), median(errors), errors[place - 1]};
}

}  // namespace weir
