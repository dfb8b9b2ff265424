// Primus' published timeline: PP 8, M 16, 1F1B, 20 iterations. No model and no link is known of it,
// so it is the engine and the idle between actions that are held to it: an iteration's medians by
// rank and kind go in, every start of the next one comes out. Memory is that of equal stages.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/measured/primus_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "costmodel/fit/step_medians.hpp"
#include "plan/words/error.hpp"
#include "sim/timeline_forecast.hpp"
#include "tools/reproduce/reproduction.hpp"
#include "traces/interruptions.hpp"
#include "traces/starts.hpp"

namespace weir {
namespace {

constexpr const char* kTimelineTable = "primus_pp_timeline.csv";

Seconds milliseconds(const PublishedRow& row, const char* column) {
  return Seconds(row.number(column) / 1e3);
}

// Steps whose predecessor may price them: it is no warm-up.
std::vector<std::int32_t> judged_steps(const Timeline& timeline) {
  std::vector<std::int32_t> steps;
  for (std::size_t i = 1; i < timeline.numbers.size(); ++i) {
    if (timeline.numbers[i - 1] > 1) steps.push_back(static_cast<std::int32_t>(i));
  }
  return steps;
}

void add_steps(const Timeline& timeline, CaseResult& result) {
  const std::vector<Interruption> interrupted = interruptions(timeline.trace);
  for (const std::int32_t step : judged_steps(timeline)) {
    const StepWindow& window = timeline.trace.steps[static_cast<std::size_t>(step)];
    // Each iteration by the medians of the one before: nothing of itself.
    const Trace predicted = forecast_by_step(timeline, step - 1);
    const StepWindow& forecast = predicted.steps.front();
    const ReproducedNumber number{
        fmt::format("iteration {}", timeline.numbers[static_cast<std::size_t>(step)]),
        "step ms",
        {to_seconds(window.end - window.start).count() * 1e3, 0.001},
        to_seconds(forecast.end - forecast.start).count() * 1e3};
    // An interruption is the machine's, and cannot be told from an iteration before it.
    const auto why = std::ranges::find(interrupted, step, &Interruption::step);
    if (why == interrupted.end()) {
      result.add(Role::predicted, number);
    } else {
      result.add_anomaly(
          number, describe(*why) + ": an interruption that the iteration before cannot tell");
    }
  }
}

void add_memory(const Timeline& timeline, CaseResult& result) {
  const std::vector<std::int32_t> in_flight = peak_in_flight(timeline.schedule);
  const auto last = static_cast<std::int32_t>(timeline.numbers.size()) - 1;
  const std::vector<Bytes> measured = memory_of(timeline, last);
  const auto line = fit_in_flight(in_flight, measured);
  if (!line) throw InputError(kTimelineTable, "rank", "expected at least four ranks");
  for (std::size_t r = 0; r < measured.size(); ++r) {
    const auto over_first = [](Bytes bytes, Bytes first) {
      return static_cast<double>(bytes.count()) / static_cast<double>(first.count());
    };
    // The two ranks that taught the line are no forecasts.
    const bool fitted = r == 1 || r + 2 == measured.size();
    result.add(fitted ? Role::calibrated : Role::predicted,
               {fmt::format("rank {}", r),
                "peak memory over rank 0's",
                {over_first(measured[r], measured[0]), 1e-9},
                over_first(line->of(in_flight[r]), line->of(in_flight[0]))});
  }
}

}  // namespace

Timeline primus_timeline(const Publications& published) {
  // Ordered maps: the timeline must not depend on the order of rows.
  std::map<int, std::map<std::int64_t, RankIteration>> ranks;
  for (const PublishedRow& row : published.table(kTimelineTable)) {
    RankIteration& one = ranks[static_cast<int>(row.number("rank"))][row.integer("iteration")];
    one.total = milliseconds(row, "total_ms");
    one.memory = Bytes(std::llround(row.number("memory_gib") * 0x1p30));
    // A row that is missing would shift every micro-batch behind it.
    if (row.number("microbatch") != static_cast<double>(one.forward_start.size()))
      row.fail("microbatch", "expected the micro-batches of a rank in order, from 0");
    one.forward_start.push_back(milliseconds(row, "forward_start_ms"));
    one.forward_end.push_back(milliseconds(row, "forward_end_ms"));
    one.backward_start.push_back(milliseconds(row, "backward_start_ms"));
    one.backward_end.push_back(milliseconds(row, "backward_end_ms"));
  }
  std::vector<RankTimeline> timelines;
  for (auto& [rank, iterations] : ranks) {
    RankTimeline timeline{fmt::format("{}, rank {}", kTimelineTable, rank), {}, {}};
    for (auto& [number, iteration] : iterations) {
      timeline.numbers.push_back(number);
      timeline.iterations.push_back(std::move(iteration));
    }
    timelines.push_back(std::move(timeline));
  }
  return make_timeline(timelines);
}

TimelineStarts starts_by_previous(const Timeline& timeline) {
  const std::vector<Interruption> interrupted = interruptions(timeline.trace);
  TimelineStarts result;
  std::vector<double> all, uninterrupted;
  // Only iterations whose predecessor is no warm-up.
  for (const std::int32_t step : judged_steps(timeline)) {
    const std::vector<double> errors =
        start_errors(forecast_by_step(timeline, step - 1), timeline.trace, step);
    all.insert(all.end(), errors.begin(), errors.end());
    ++result.iterations;
    if (is_interrupted(interrupted, step)) {
      ++result.interrupted;
    } else {
      uninterrupted.insert(uninterrupted.end(), errors.begin(), errors.end());
    }
  }
  if (uninterrupted.empty())
    throw InputError(kTimelineTable, "", "has no iteration after the second without interruption");
  result.all = summary(std::move(all));
  result.uninterrupted = summary(std::move(uninterrupted));
  return result;
}

CaseResult reproduce_primus_timeline(const Publications& published) {
  const Timeline timeline = primus_timeline(published);
  CaseResult result;
  add_steps(timeline, result);
  add_memory(timeline, result);
  const TimelineStarts starts = starts_by_previous(timeline);
  const auto note = [&](int iterations, const StartErrors& errors, const std::string& which) {
    result.notes.push_back(fmt::format(
        "Starts of {} actions in {} iterations{}, each priced by the medians of the one "
        "before: {:.2f} % of the step off in the median, 95 of 100 within {:.2f} %.",
        errors.actions, iterations, which, errors.median * 100, errors.p95 * 100));
  };
  note(starts.iterations, starts.all, "");
  note(starts.iterations - starts.interrupted, starts.uninterrupted,
       fmt::format(" without the {} in which an action took over {} times its rank's median",
                   starts.interrupted, kInterrupted));
  result.notes.emplace_back(
      "Memory relative to rank 0's: a fixed part and one for each micro-batch in flight, by two "
      "ranks of the same run (1 and 6, the outermost that hold neither embedding nor head); the "
      "other ranks are told from them.");
  return result;
}

}  // namespace weir
