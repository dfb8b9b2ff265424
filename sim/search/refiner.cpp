// Refines candidates, forecasts their partitions, and keeps both as small values.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/refiner.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>
#include <variant>

#include "plan/text/strict_json.hpp"
#include "sim/parallel.hpp"

namespace weir {
namespace {

Cut cut_of(const Ranked& ranked) {
  const Forecast& forecast = ranked.forecast;
  return {ranked.plan.boundaries, forecast.step_time, forecast.peak_memory(), forecast.fits()};
}

// Takes what may fit, what a ranking takes first before the other.
void add(Outcome& outcome, const Ranked& ranked) {
  const Bytes peak = ranked.forecast.peak_memory();
  outcome.needed = outcome.needed.count() == 0 ? peak : std::min(outcome.needed, peak);
  if (const auto host = ranked.forecast.host_too_full()) outcome.host = host;
  if (!ranked.forecast.may_fit()) return;
  Cut cut = cut_of(ranked);
  const auto place = std::ranges::upper_bound(
      outcome.cuts, cut, [](const Cut& a, const Cut& b) { return goes_before(a, b); });
  outcome.cuts.insert(place, std::move(cut));
}

// How soon a step can end that is already known to be too slow, or not at all.
bool within(const Outcome& outcome, std::optional<Seconds> limit) {
  return !limit || *outcome.too_slow <= *limit;
}

}  // namespace

bool goes_before(const Cut& a, const Cut& b) {
  return std::tie(a.fits, a.step, a.peak) < std::tie(b.fits, b.step, b.peak);
}

std::vector<Examined> Refiner::examine(std::span<const std::uint32_t> nodes) {
  std::vector<std::uint32_t> fresh;
  for (const std::uint32_t node : nodes) {
    if (!examined_.contains(node)) fresh.push_back(node);
  }
  for (Examined& one : examiner_.examine(fresh))
    examined_.insert_or_assign(one.node, std::move(one));
  std::vector<Examined> all;
  all.reserve(nodes.size());
  for (const std::uint32_t node : nodes) all.push_back(examined_.at(node));
  return all;
}

Ranked Refiner::forecast_of(std::uint32_t node, int slots, std::vector<int> boundaries,
                            const CandidateSources& sources) {
  Plan plan = nodes_.plan(nodes_.all[node], request_);
  plan.slots = slots;
  plan.boundaries = std::move(boundaries);
  return ranked_of(plan, sources, request_.memory_limit);
}

Ranked Refiner::ranked(std::uint32_t node, const Cut& cut, SoftwareSteps* software) {
  CandidateSources its = sources();
  its.detail = ForecastDetail::ranking;
  its.software = software;
  return forecast_of(node, of(node).slots, cut.boundaries, its);
}

void Refiner::forecast_cuts(std::uint32_t node, Outcome& outcome,
                            std::vector<std::vector<int>> partitions) {
  outcome.too_slow.reset();
  outcome.unforecast.clear();
  for (std::vector<int>& boundaries : partitions)
    add(outcome, forecast_of(node, outcome.slots, std::move(boundaries), sources()));
}

bool Refiner::knows(std::uint32_t node, std::optional<Bytes> memory) const {
  const auto known = outcomes_.find(node);
  if (known == outcomes_.end()) return false;
  // What the end of a question's time cut short is tried again.
  if (known->second.cut_short) return false;
  const auto& even = known->second.even_peak;
  // One that was left at its even partition for its memory is known only where no more is allowed
  // now.
  return !even || (memory && *even > *memory);
}

Outcome Refiner::refined(std::uint32_t node, CandidateLimits limits, std::optional<Bytes> memory) {
  Outcome outcome;
  Plan plan = examiner_.plan(node);
  const auto slots = examiner_.shapes().slots(plan, programs_);
  if (const auto* reason = std::get_if<std::string>(&slots)) {
    outcome.reason = *reason;
    return outcome;
  }
  plan.slots = outcome.slots = std::get<int>(slots);
  if (memory) {
    // A forecast costs a part of what refining does.
    const Ranked even = ranked_of(plan, sources(), request_.memory_limit);
    if (even.forecast.peak_memory() > *memory) {
      add(outcome, even);
      outcome.even_peak = even.forecast.peak_memory();
      return outcome;
    }
  }
  limits.memory = request_.memory_limit;
  CandidateCost cost = cost_of(plan, sources(), limits);
  outcome.simulated = cost.simulated;
  if (cost.too_slow) {
    outcome.too_slow = cost.too_slow;
    outcome.unforecast.push_back(std::move(cost.even));
    if (cost.refined != outcome.unforecast.front())
      outcome.unforecast.push_back(std::move(cost.refined));
    return outcome;
  }
  outcome.needed = cost.ranked ? Bytes(0) : cost.held;
  if (cost.ranked) add(outcome, *cost.ranked);
  if (cost.other) add(outcome, *cost.other);
  return outcome;
}

void Refiner::refine(std::span<const std::uint32_t> nodes, std::optional<Seconds> limit,
                     std::optional<Bytes> memory, const std::function<bool()>& over) {
  std::vector<std::uint32_t> fresh, again;
  for (const std::uint32_t node : nodes) {
    const auto known = outcomes_.find(node);
    if (!knows(node, memory)) {
      fresh.push_back(node);
    } else if (known->second.too_slow && within(known->second, limit)) {
      again.push_back(node);
    }
  }
  in_parallel(again.size(), [&](std::size_t i) {
    Outcome& outcome = outcomes_.at(again[i]);
    forecast_cuts(again[i], outcome, std::move(outcome.unforecast));
  });
  std::vector<Outcome> outcomes(fresh.size());
  const auto& party = request_.party;
  // Every process takes one node in `each`, from its own number on.
  const std::size_t first = party ? static_cast<std::size_t>(party->index) : 0,
                    each = party ? static_cast<std::size_t>(party->count) : 1;
  const std::size_t mine = first < fresh.size() ? (fresh.size() - first - 1) / each + 1 : 0;
  using Clock = std::chrono::steady_clock;
  in_parallel(mine, [&](std::size_t i) {
    const std::size_t place = first + i * each;
    const auto begin = Clock::now();
    outcomes[place] = refined(fresh[place], {.step = limit, .over = over}, memory);
    // Asked behind it: what ended just before the end counts as cut, which takes no truth from it.
    outcomes[place].cut_short = over && over();
    outcomes[place].seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  });
  if (party) share(fresh, outcomes);
  // Behind the threads: the map is changed by one of them only.
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    // A try that was cut short again takes no better partition from an earlier one.
    const auto known = outcomes_.find(fresh[i]);
    if (outcomes[i].cut_short && known != outcomes_.end() && !known->second.cuts.empty() &&
        (outcomes[i].cuts.empty() ||
         goes_before(known->second.cuts.front(), outcomes[i].cuts.front())))
      continue;
    outcomes_.insert_or_assign(fresh[i], std::move(outcomes[i]));
  }
}

// Forecasts do not travel: what fits is forecast anew from its boundaries, which gives the same.
void Refiner::share(std::span<const std::uint32_t> nodes, std::vector<Outcome>& outcomes) {
  const auto first = static_cast<std::size_t>(request_.party->index),
             each = static_cast<std::size_t>(request_.party->count);
  Json own = Json::array();
  for (std::size_t i = first; i < nodes.size(); i += each) {
    const Outcome& one = outcomes[i];
    Json cuts = Json::array();
    for (const Cut& cut : one.cuts) cuts.push_back(cut.boundaries);
    own.push_back({one.reason, one.too_slow ? Json(one.too_slow->count()) : Json(), one.unforecast,
                   one.needed.count(), one.simulated, one.slots, cuts,
                   one.even_peak ? Json(one.even_peak->count()) : Json(),
                   one.host ? Json{one.host->optimizer.count(), one.host->activations.count(),
                                   one.host->memory.count()}
                            : Json()});
  }
  const std::vector<std::string> all = request_.party->exchange(own.dump());
  // Afterwards every process has every outcome, so that all walk on alike.
  for (std::size_t p = 0; p < each; ++p) {
    if (p == first) continue;
    const Json theirs = Json::parse(all[p]);
    for (std::size_t i = p; i < nodes.size(); i += each) {
      const Json& json = theirs.at(i / each);
      Outcome& one = outcomes[i];
      one.reason = json[0];
      one.simulated = json[4];
      one.slots = json[5];
      for (const Json& boundaries : json[6])
        add(one, forecast_of(nodes[i], one.slots, boundaries.get<std::vector<int>>(), sources()));
      if (!json[1].is_null()) one.too_slow = Seconds(json[1].get<double>());
      one.unforecast = json[2].get<std::vector<std::vector<int>>>();
      one.needed = Bytes(json[3].get<std::int64_t>());
      if (!json.at(7).is_null()) one.even_peak = Bytes(json.at(7).get<std::int64_t>());
      if (const Json& host = json.at(8); !host.is_null()) {
        const auto bytes = [&host](int at) { return Bytes(host.at(at).get<std::int64_t>()); };
        one.host = HostHeld{bytes(0), bytes(1), bytes(2)};
      }
    }
  }
}

void Refiner::restore(std::uint32_t node, int slots, std::vector<int> boundaries) {
  Outcome& outcome = outcomes_[node];
  outcome.slots = slots;
  add(outcome, forecast_of(node, slots, std::move(boundaries), sources()));
}

std::optional<std::pair<std::uint32_t, Cut>> Refiner::fastest_doubtful() const {
  std::optional<std::pair<std::uint32_t, Cut>> fastest;
  for (const auto& [node, outcome] : outcomes_) {
    for (const Cut& cut : outcome.cuts) {
      const bool faster = !fastest || cut.step < fastest->second.step;
      if (cut.fits == Fits::maybe && faster) fastest = {node, cut};
    }
  }
  return fastest;
}

}  // namespace weir
