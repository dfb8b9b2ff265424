// Two traces of one program, part by part.
// SPDX-License-Identifier: Apache-2.0
#include "traces/compare.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "plan/words/per_kind.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

double length(const StepWindow& step) { return to_seconds(step.end - step.start).count(); }

std::int32_t median_step(const Trace& trace) {
  std::vector<std::int32_t> order(trace.steps.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
    return length(trace.steps[static_cast<std::size_t>(a)]) <
           length(trace.steps[static_cast<std::size_t>(b)]);
  });
  return order[(order.size() - 1) / 2];  // of an even number the lower: a step that was run
}

std::vector<KindError> errors_by_kind(const Program& program, const Trace& predicted,
                                      const Trace& measured) {
  const auto expected_spans = predicted.of_step(0);
  std::vector<IndexedView<OperationId, const Span>> steps;
  for (std::size_t step = 0; step < measured.steps.size(); ++step)
    steps.push_back(measured.of_step(static_cast<std::int32_t>(step)));
  std::map<std::pair<ActionKind, Rank>, std::pair<KindError, std::vector<double>>> found;
  for (const Rank rank : program.ranks()) {
    for (const OperationId id : program.compute_lane(rank).operations()) {
      std::vector<double> times;
      for (const auto& spans : steps) times.push_back(to_seconds(spans[id].duration()).count());
      const double seen = median(std::move(times));
      const double expected = to_seconds(expected_spans[id].duration()).count();
      const ActionKind kind = program.op(id).action.kind;
      auto& [error, ratios] = found[{kind, rank}];
      error.kind = kind;
      error.rank = rank;
      ++error.actions;
      error.predicted += Seconds(expected);
      error.measured += Seconds(seen);
      // An action that took no measurable time has no relative error.
      if (seen > 0) ratios.push_back(std::abs(expected - seen) / seen);
    }
  }
  std::vector<KindError> errors;
  for (auto& [key, value] : found) {
    if (!value.second.empty()) value.first.median_abs_error = median(std::move(value.second));
    errors.push_back(value.first);
  }
  return errors;
}

// Beside the optimizer's own time an idle rank's is the wait for it.
std::string part_of(const IdleCause& cause) {
  return cause.time == &IdleTime::optimizer ? "optimizer wait" : cause.name;
}

// Busy time by kind and idle time by cause, averaged over ranks; the sum is the step time.
std::map<std::string, double> parts_of(const Program& program, const Trace& trace,
                                       std::int32_t step, const StepMetrics& metrics) {
  const auto spans = trace.of_step(step);
  const auto ranks = static_cast<double>(metrics.ranks.size());
  std::map<std::string, double> parts;
  for (const Rank rank : program.ranks()) {
    for (const OperationId id : program.compute_lane(rank).operations()) {
      parts[std::string(to_string(spans[id].action.kind))] +=
          to_seconds(spans[id].duration()).count() / ranks;
    }
  }
  for (const RankMetrics& rank : metrics.ranks) {
    for (const IdleCause& cause : kIdleCauses)
      parts[part_of(cause)] += to_seconds(rank.idle.*cause.time).count() / ranks;
  }
  return parts;
}

}  // namespace

Comparison compare(const Program& program, const Trace& predicted, const Trace& measured) {
  Comparison result;
  result.typical_step = median_step(measured);
  result.predicted_metrics = step_metrics(program, predicted, 0);
  result.measured_metrics = step_metrics(program, measured, result.typical_step);
  result.predicted = to_seconds(result.predicted_metrics.step_time);
  std::vector<double> lengths;
  for (const StepWindow& step : measured.steps) lengths.push_back(length(step));
  result.measured = Seconds(median(std::move(lengths)));
  if (result.measured > Seconds(0))
    result.error = (result.predicted - result.measured) / result.measured;
  result.kinds = errors_by_kind(program, predicted, measured);
  // Kinds and causes in their fixed order; what only the forecast has is no part of the measured
  // step.
  auto before = parts_of(program, predicted, 0, result.predicted_metrics);
  const auto after = parts_of(program, measured, result.typical_step, result.measured_metrics);
  const auto add = [&](const std::string& part) {
    const auto found = after.find(part);
    if (found != after.end())
      result.waterfall.push_back({part, Seconds(found->second - before[part])});
  };
  for (const ActionKind kind : kComputeKinds) add(std::string(to_string(kind)));
  for (const IdleCause& cause : kIdleCauses) add(part_of(cause));
  // The parts are those of the lower median step; where the median lies between two steps the rest
  // is a bar of its own, so that the waterfall still sums.
  const Seconds typical = to_seconds(result.measured_metrics.step_time);
  if (result.measured != typical)
    result.waterfall.push_back({"median of two steps", result.measured - typical});
  return result;
}

}  // namespace weir
