// Thresholds of a disturbed machine.
// SPDX-License-Identifier: Apache-2.0
#include "traces/disturbance.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "plan/text/strict_json.hpp"
#include "traces/stats.hpp"
#include "traces/trace.hpp"

namespace weir {
namespace {

constexpr double kMostStolen = 0.02, kMostPreemptions = 20, kMostSpread = 0.1;
constexpr std::size_t kLeastSteps = 3;
constexpr const char* kKey = "disturbance";  // of a trace's info

std::optional<double> larger(const std::optional<double>& a, const std::optional<double>& b) {
  return a && b ? std::max(a, b) : a ? a : b;
}

std::optional<double> spread_of_steps(const Trace& trace) {
  std::vector<double> times;
  for (const StepWindow& step : trace.steps) {
    const double time = Seconds(step.end - step.start).count();
    if (time > 0) times.push_back(time);
  }
  if (times.size() < kLeastSteps) return std::nullopt;
  return spread_over_fastest_half(std::move(times));
}

}  // namespace

Disturbance worse_of(const Disturbance& a, const Disturbance& b) {
  return {.watched = std::max(a.watched, b.watched),
          .worked = std::max(a.worked, b.worked),
          .stolen = larger(a.stolen, b.stolen),
          .preemptions_per_s = std::max(a.preemptions_per_s, b.preemptions_per_s),
          .spread = larger(a.spread, b.spread)};
}

Disturbance disturbance_of(const Trace& trace) {
  Disturbance found;
  if (const auto written = trace.info.find(kKey); written != trace.info.end()) {
    const std::string where = fmt::format("weir.info.{}", kKey);
    found = parse_disturbance(parse_json(written->second, where), where, "");
  }
  if (!trace.steps.empty()) {  // of other tools' traces nothing else was counted
    const Seconds steps(trace.steps.back().end - trace.steps.front().start);
    found.watched = std::max(found.watched, steps);
  }
  found.spread = spread_of_steps(trace);
  return found;
}

void put_disturbance(Trace& trace, const Disturbance& disturbance) {
  trace.info[kKey] = to_json(disturbance).dump();
}

std::string doubt(const Disturbance& d) {
  std::vector<std::string> wrong;
  // Shares of too short a time say nothing.
  if (d.stolen && *d.stolen > kMostStolen && d.watched >= kLeastWatched)
    wrong.push_back(fmt::format("{:.1f}% of its cores' time was stolen", *d.stolen * 100));
  if (d.preemptions_per_s > kMostPreemptions && d.worked >= kLeastWatched) {
    wrong.push_back(
        fmt::format("a thread lost its core {:.0f} times a second", d.preemptions_per_s));
  }
  if (d.spread && *d.spread > kMostSpread && d.watched >= kLeastWatched)
    wrong.push_back(fmt::format("repeated times spread by {:.0f}%", *d.spread * 100));
  return fmt::format("{}", fmt::join(wrong, ", "));
}

}  // namespace weir
