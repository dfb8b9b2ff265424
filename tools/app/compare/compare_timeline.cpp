// Forecasts of a dumped timeline, and their JSON.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/compare/compare_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "costmodel/fit/step_medians.hpp"
#include "plan/words/error.hpp"
#include "sim/timeline_forecast.hpp"

namespace weir::app {
namespace {

// Whatever prices the forecast and, where there are others, warm-up are left out.
std::vector<std::int64_t> compared(const Timeline& timeline,
                                   std::optional<std::int64_t> priced_by) {
  std::vector<std::int64_t> keep;
  for (const std::int64_t number : timeline.numbers) {
    if (number != priced_by) keep.push_back(number);
  }
  if (keep.size() > 1 && keep.front() == 1) keep.erase(keep.begin());
  return keep;
}

// Of each rank, the most over the iterations.
std::vector<TimelineRankMemory> memory_by_rank(const Timeline& timeline) {
  const std::vector<std::int32_t> in_flight = peak_in_flight(timeline.schedule);
  std::vector<TimelineRankMemory> all;
  for (const Counter& counter : timeline.trace.counters) {
    std::int64_t most = 0;
    for (const Counter::Sample& sample : counter.samples) most = std::max(most, sample.value);
    all.push_back({counter.rank, in_flight[counter.rank.position()], Bytes(most), std::nullopt});
  }
  return all;
}

void hold_starts(TimelineComparison& c) {
  c.starts = compare_starts(c.predicted, c.measured);
  c.interrupted = interruptions(c.measured);
  std::vector<double> all, uninterrupted;
  for (std::size_t i = 0; i < c.iterations.size(); ++i) {
    const auto step = static_cast<std::int32_t>(i);
    const std::vector<double> errors = start_errors(c.predicted, c.measured, step);
    all.insert(all.end(), errors.begin(), errors.end());
    if (!is_interrupted(c.interrupted, step))
      uninterrupted.insert(uninterrupted.end(), errors.begin(), errors.end());
  }
  c.errors = summary(std::move(all));
  if (!uninterrupted.empty()) c.uninterrupted = summary(std::move(uninterrupted));
}

nlohmann::ordered_json errors_json(const StartErrors& errors) {
  return {{"actions", errors.actions}, {"median", errors.median}, {"p95", errors.p95}};
}

}  // namespace

TimelineComparison compare_timelines(const std::filesystem::path& first,
                                     const std::filesystem::path& second,
                                     std::optional<std::int64_t> priced_by) {
  const Timeline source = read_timeline(first);
  // One folder read once, and then the iteration that prices is left out of what is judged.
  const bool same = std::filesystem::equivalent(first, second);
  const Timeline all = same ? source : read_timeline(second);
  // Starts can only be compared of the same actions in the same order.
  if (source.schedule.order != all.schedule.order)
    throw InputError(second.string(), "", "has another order of actions than " + first.string());
  // The last iteration is often cut short by what ends the run: the one before it is steady.
  const std::size_t last = source.numbers.size() - 1;
  const std::int64_t number = priced_by.value_or(source.numbers[last > 0 ? last - 1 : last]);
  const std::int32_t step = source.step_of(number, first.string());
  const auto keep = compared(all, same ? std::optional(number) : std::nullopt);
  if (keep.empty())
    throw InputError(second.string(), "", "has no iteration beside the one that prices it");
  const Timeline measured = only_iterations(all, keep);
  TimelineComparison result;
  result.priced_by = number;
  result.iterations = measured.numbers;
  result.predicted = forecast_by_step(source, step);
  result.measured = measured.trace;
  hold_starts(result);
  result.memory = memory_by_rank(measured);
  // Memory by what is in flight is a line: learnt from the pricing iteration, told of the others.
  const auto line = fit_in_flight(peak_in_flight(source.schedule), memory_of(source, step));
  for (TimelineRankMemory& rank : result.memory) {
    if (line) rank.predicted = line->of(rank.peak_in_flight);
  }
  return result;
}

TimelineComparison compare_with_timeline(const ResolvedPlan& plan, const ForecastResult& forecast,
                                         const std::filesystem::path& folder) {
  const Timeline all = read_timeline(folder);
  const ScheduleShape &here = plan.schedule.shape, &there = all.schedule.shape;
  if (here.ranks != there.ranks || here.total_stages() != there.total_stages() ||
      here.units() != there.units()) {
    throw InputError(
        folder.string(), "",
        fmt::format("has {} ranks of one stage and {} micro-batches, the plan {} "
                    "ranks, {} stages and {}",
                    there.ranks, there.units(), here.ranks, here.total_stages(), here.units()));
  }
  // Spans are joined by rank: where stages lie elsewhere, the ranks do other work.
  if (here.rank_of_stage != there.rank_of_stage)
    throw InputError(folder.string(), "", "has stage s on rank s, the plan has not");
  const Timeline measured = only_iterations(all, compared(all, std::nullopt));
  TimelineComparison result;
  result.iterations = measured.numbers;
  result.predicted = forecast.trace;
  result.measured = measured.trace;
  result.memory = memory_by_rank(measured);
  // A plan that parts I from W shares its forwards alone with a timeline of full backwards.
  hold_starts(result);
  for (TimelineRankMemory& rank : result.memory) {
    if (!forecast.forecast.memory.empty())
      rank.predicted =
          forecast.forecast.memory[rank.rank.position()].peak_as(MemoryCount::reserved);
  }
  return result;
}

nlohmann::ordered_json to_json(const TimelineComparison& c) {
  using Json = nlohmann::ordered_json;
  Json json{{"schema", "weir.timeline_comparison/1"},
            {"priced_by", c.priced_by ? Json(*c.priced_by) : Json(nullptr)},
            {"iterations", c.iterations},
            {"predicted_s", c.starts.predicted.count()},
            {"measured_s", c.starts.measured.count()},
            {"error", c.starts.predicted / c.starts.measured - 1},
            {"start_errors", errors_json(c.errors)},
            {"uninterrupted_start_errors",
             c.uninterrupted ? errors_json(*c.uninterrupted) : Json(nullptr)},
            {"interruptions", Json::array()},
            {"actions", Json::array()},
            {"ranks", Json::array()}};
  for (const Interruption& one : c.interrupted) {
    json["interruptions"].push_back(
        {{"iteration", c.iterations[static_cast<std::size_t>(one.step)]},
         {"rank", one.action.rank.value},
         {"action", to_string(one.action.action)},
         {"measured_s", to_seconds(one.action.duration()).count()},
         {"median_s", one.median.count()}});
  }
  for (const ActionStart& a : c.starts.actions) {
    json["actions"].push_back({{"rank", a.rank.value},
                               {"action", to_string(a.action)},
                               {"predicted_start_s", a.predicted_start.count()},
                               {"measured_start_s", a.measured_start.count()},
                               {"predicted_s", a.predicted.count()},
                               {"measured_s", a.measured.count()}});
  }
  for (const TimelineRankMemory& rank : c.memory) {
    json["ranks"].push_back({{"rank", rank.rank.value},
                             {"peak_in_flight", rank.peak_in_flight},
                             {"predicted_peak_memory_bytes",
                              rank.predicted ? Json(rank.predicted->count()) : Json(nullptr)},
                             {"measured_peak_memory_bytes", rank.measured.count()}});
  }
  return json;
}

}  // namespace weir::app
