// Decides limits by sets of partial partitions.
// SPDX-License-Identifier: Apache-2.0
#include "sim/partition/shared_search.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace weir {
namespace {

// Stage s and stage S-1-s on the same devices: the outermost pair leaves a chain of the same kind.
bool folds(const PartitionProblem& problem) {
  for (int s = 0; s < problem.stages; ++s) {
    auto one = problem.devices[at(s)], other = problem.devices[at(problem.stages - 1 - s)];
    std::ranges::sort(one);
    std::ranges::sort(other);
    if (one != other) return false;
  }
  return true;
}

}  // namespace

SharedSearch::SharedSearch(const PartitionProblem& problem)
    : problem_(problem), devices_(problem.kinds.size()) {
  for (const auto& times : problem.layer_ns) sums_.push_back(running_sum(times));
  // What a layer takes on the device that is the fastest for it: no less, wherever it comes to
  // stand.
  std::vector<std::int64_t> fastest = problem.layer_ns.front();
  for (const auto& times : problem.layer_ns)
    std::ranges::transform(fastest, times, fastest.begin(), std::ranges::min);
  fastest_ = running_sum(fastest);
  if (problem.memory) {
    held_ = running_sum(problem.memory->held);
    kept_ = running_sum(problem.memory->kept);
  }
  for (const auto& links : problem.links)
    for (const int link : links) links_ = std::max(links_, at(link) + 1);
  // So many devices at least hold every layer.
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  for (const auto& holders : problem.devices) fewest = std::min(fewest, holders.size());
  copies_ = static_cast<std::int64_t>(fewest);
  const bool both_ends = folds(problem);
  // From both ends inwards where first and last stages share devices: so a device is finished
  // early.
  for (int n = 0, low = 0, high = problem.stages - 1; low <= high; ++n) {
    const bool left = !both_ends || n % 2 == 0;
    const int stage = left ? low++ : high--;
    // Both boundaries of the last stage are decided when its turn comes.
    const int boundary = low > high ? -1 : (left ? stage : stage - 1);
    steps_.push_back({stage, left, boundary, {}, {}});
  }
  // A resource is open between the first and the last step that uses it.
  const std::size_t resources = 2 * devices_ + links_;
  std::vector<std::size_t> first(resources, steps_.size()), last(resources, 0);
  const auto uses = [&](std::size_t step, std::size_t resource) {
    first[resource] = std::min(first[resource], step);
    last[resource] = step;
  };
  for (std::size_t n = 0; n < steps_.size(); ++n) {
    for (const int device : problem.devices[at(steps_[n].stage)]) {
      uses(n, at(device));
      if (problem.memory) uses(n, devices_ + links_ + at(device));
    }
    if (steps_[n].boundary < 0 || problem.cut_ns.empty()) continue;
    for (const int link : problem.links[at(steps_[n].boundary)]) uses(n, devices_ + at(link));
  }
  for (std::size_t n = 0; n < steps_.size(); ++n) {
    for (std::size_t r = 0; r < resources; ++r)
      if (first[r] <= n && n < last[r]) steps_[n].open.push_back(r);
    for (std::size_t d = 0; d < devices_; ++d)
      if (n < last[d]) steps_[n].later.push_back(d);
  }
}

std::int64_t SharedSearch::lower_bound() const {
  std::int64_t longest = 0;
  for (int l = 0; l < problem_.layers(); ++l)
    longest = std::max(longest, fastest_[at(l) + 1] - fastest_[at(l)]);
  const auto devices = static_cast<std::int64_t>(devices_);
  std::int64_t bound = std::max(longest, (copies_ * fastest_.back() + devices - 1) / devices);
  if (problem_.layer_ns.size() > 1) return bound;
  // Of the j D + 1 longest layers, copies counted, j + 1 meet on one of D equal devices.
  std::vector<std::int64_t> times;
  for (const std::int64_t time : problem_.layer_ns.front())
    times.insert(times.end(), at(copies_), time);
  std::ranges::sort(times, std::ranges::greater{});
  for (std::size_t j = 1; j * devices_ < times.size(); ++j) {
    const auto least = times.begin() + static_cast<std::ptrdiff_t>(j * devices_ + 1);
    bound = std::max(
        bound, std::accumulate(least - static_cast<std::ptrdiff_t>(j) - 1, least, std::int64_t{0}));
  }
  return bound;
}

// Adds the stage of these layers, and the boundary that it decides; whether all of it keeps to the
// limit and the memory.
bool SharedSearch::take(const Step& step, int first, int last, std::int64_t limit,
                        std::vector<std::int64_t>& load) const {
  for (const int device : problem_.devices[at(step.stage)]) {
    const auto& sums = sums_[at(problem_.kinds[at(device)])];
    if ((load[at(device)] += sums[at(last)] - sums[at(first)]) > limit) return false;
    if (!problem_.memory) continue;
    const PartitionMemory& m = *problem_.memory;
    std::int64_t& bytes = load[devices_ + links_ + at(device)];
    bytes += held_[at(last)] - held_[at(first)] +
             m.in_flight[at(step.stage)] * (kept_[at(last)] - kept_[at(first)]);
    if (bytes > m.capacity[at(device)]) return false;
  }
  if (step.boundary < 0 || problem_.cut_ns.empty()) return true;
  const std::int64_t crossing = problem_.cut_ns[at(step.boundary)][at(step.left ? last : first)];
  return std::ranges::all_of(problem_.links[at(step.boundary)], [&](int link) {
    return (load[devices_ + at(link)] += crossing) <= limit;
  });
}

// The room of the devices that come later is less than what is left to be done.
bool SharedSearch::hopeless(const Step& step, const Partial& partial, std::int64_t limit) const {
  std::int64_t room = 0;
  for (const std::size_t d : step.later) {
    room += limit - partial.load[d];
    if (room < 0) return false;  // more than 64 bits hold
  }
  return copies_ * (fastest_[at(partial.last)] - fastest_[at(partial.first)]) > room;
}

void SharedSearch::extend(const Step& step, const Partial& from, std::int32_t parent,
                          std::int64_t limit, std::vector<Partial>& next,
                          std::int64_t& budget) const {
  const auto stages_left = static_cast<int>(&steps_.back() - &step);
  // Each of the stages to come needs a layer.
  const int most = from.last - from.first - stages_left;
  // The last stage takes what is left.
  for (int count = stages_left == 0 ? most : 1; count <= most && budget > 0; ++count) {
    Partial to{from.first, from.last, parent, from.load};
    (step.left ? to.first : to.last) += step.left ? count : -count;
    const int first = step.left ? from.first : to.last, last = step.left ? to.first : from.last;
    if (!take(step, first, last, limit, to.load)) {
      // A longer stage is no shorter; only a boundary's messages may be.
      std::vector<std::int64_t> alone = from.load;
      const Step stage_only{step.stage, step.left, -1, {}, {}};
      if (!take(stage_only, first, last, limit, alone)) break;
      continue;
    }
    --budget;
    if (!hopeless(step, to, limit)) next.push_back(std::move(to));
  }
}

SharedSearch::Outcome SharedSearch::decide(std::int64_t limit, std::int64_t& budget) {
  std::vector<std::vector<Partial>> levels(1);
  // Devices' times, then links', then devices' bytes.
  levels[0].push_back(
      {0, problem_.layers(), -1, std::vector<std::int64_t>(2 * devices_ + links_, 0)});
  for (const Step& step : steps_) {
    std::vector<Partial> next;
    for (std::size_t p = 0; p < levels.back().size(); ++p)
      extend(step, levels.back()[p], static_cast<std::int32_t>(p), limit, next, budget);
    // With the budget gone nothing is refuted, even where nothing was found.
    if (budget <= 0) return Outcome::exhausted;
    if (next.empty()) return Outcome::none;
    // What is finished has no future: it only has to be within the limit.
    const auto key = [&step](const Partial& partial) {
      std::vector<std::int64_t> open;
      for (const std::size_t r : step.open) open.push_back(partial.load[r]);
      return open;
    };
    std::vector<std::tuple<int, int, std::vector<std::int64_t>, std::size_t>> order;
    for (std::size_t p = 0; p < next.size(); ++p)
      order.emplace_back(next[p].first, next[p].last, key(next[p]), p);
    std::ranges::sort(order);
    std::vector<Partial> kept;
    const decltype(order)::value_type* before = nullptr;
    for (const auto& entry : order) {
      const auto& [first, last, open, p] = entry;
      // With one open resource the first has the least done on it, and that is the better future.
      const bool same = before != nullptr && std::get<0>(*before) == first &&
                        std::get<1>(*before) == last &&
                        (open.size() <= 1 || std::get<2>(*before) == open);
      if (same) continue;
      before = &entry;
      kept.push_back(std::move(next[p]));
    }
    levels.push_back(std::move(kept));
  }
  remember(levels);
  return Outcome::found;
}

void SharedSearch::remember(const std::vector<std::vector<Partial>>& levels) {
  boundaries_.assign(at(problem_.stages - 1), 0);
  std::int32_t p = 0;
  // From the last step back to the first: each has decided one boundary.
  for (std::size_t n = steps_.size(); n > 0; --n) {
    const Partial& partial = levels[n][at(p)];
    const Step& step = steps_[n - 1];
    if (step.boundary >= 0)
      boundaries_[at(step.boundary)] = step.left ? partial.first : partial.last;
    p = partial.parent;
  }
}

}  // namespace weir
