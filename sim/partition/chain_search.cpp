// Parametric search over the time of the slowest stage or boundary (docs/theory.md 4.1).
// SPDX-License-Identifier: Apache-2.0
#include "sim/partition/chain_search.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <ranges>

namespace weir {
namespace {

// Exact where the squares of nanoseconds leave 64 bits.
__extension__ using Squares = unsigned __int128;

// best(row) = min over columns of value(row, column), the first column that attains it. Every
// finite row's first best column is at or after that of every row before it, so the middle row's
// halves the columns of the others. A row that no column reaches halves nothing.
template <class Value>
class MonotoneMinima {
 public:
  MonotoneMinima(Value value, std::vector<Squares>& best, std::vector<int>& from)
      : value_(value), best_(best), from_(from) {}
  void solve(int first_row, int last_row, int first_column, int last_column) {
    if (first_row > last_row) return;
    const int row = (first_row + last_row) / 2;
    for (int column = first_column; column <= last_column; ++column) {
      const std::optional<Squares> value = value_(row, column);
      if (!value || (from_[at(row)] >= 0 && *value >= best_[at(row)])) continue;
      best_[at(row)] = *value;
      from_[at(row)] = column;
    }
    const int split = from_[at(row)];
    solve(first_row, row - 1, first_column, split < 0 ? last_column : split);
    solve(row + 1, last_row, split < 0 ? first_column : split, last_column);
  }

 private:
  Value value_;
  std::vector<Squares>& best_;
  std::vector<int>& from_;
};

}  // namespace

ChainSearch::ChainSearch(const PartitionProblem& problem, const Measure& measure)
    : problem_(problem),
      weight_(measure.weight),
      stages_(problem.stages),
      layers_(problem.layers()),
      plain_(problem.layer_ns.size() == 1 && problem.cut_ns.empty() && !problem.memory &&
             measure.weight == 1 && measure.head_ns.empty()) {
  for (const auto& times : problem.layer_ns) sums_.push_back(running_sum(times));
  for (const auto& holders : problem.devices) kind_.push_back(problem.kinds[at(holders.front())]);
  if (!measure.head_ns.empty()) head_ = running_sum(measure.head_ns);
  if (!problem.memory) return;
  held_ = running_sum(problem.memory->held);
  kept_ = running_sum(problem.memory->kept);
}

std::int64_t ChainSearch::time(int stage, int first, int last) const {
  const auto& sums = sums_[at(kind_[at(stage)])];
  const std::int64_t own = sums[at(last)] - sums[at(first)];
  return weight_ * own + (head_.empty() ? 0 : head_[at(first)]);
}

// Within time and memory. Where [first, last) fits, so does every part of it that ends with it.
bool ChainSearch::fits(int stage, int first, int last, Limit& limit) const {
  if (!limit.keeps(time(stage, first, last))) return false;
  if (!problem_.memory) return true;
  const PartitionMemory& m = *problem_.memory;
  const std::int64_t bytes = held_[at(last)] - held_[at(first)] +
                             m.in_flight[at(stage)] * (kept_[at(last)] - kept_[at(first)]);
  return bytes <= m.capacity[at(problem_.devices[at(stage)].front())];
}

std::int64_t ChainSearch::cut(int stage, int first) const {
  if (problem_.cut_ns.empty() || stage == 0) return 0;
  return weight_ * problem_.cut_ns[at(stage - 1)][at(first)];
}

// By stage, the first layer before which it cannot begin: the stages from it on, each as long as
// can be, would not reach the end.
std::vector<int> ChainSearch::earliest(Limit& limit) const {
  std::vector<int> low(at(stages_) + 1, layers_);
  for (int s = stages_ - 1; s >= 0; --s) {
    const int last = low[at(s + 1)];
    // The first of 0..last that fits, by halving: what begins later is shorter.
    int begin = 0, end = last;
    while (begin < end) {
      const int middle = begin + (end - begin) / 2;
      if (fits(s, middle, last, limit))
        end = middle;
      else
        begin = middle + 1;
    }
    low[at(s)] = begin;
  }
  return low;
}

// Where stage `stage` + 1 can begin, given where this one can. The nearest layer before is the one
// to ask: if the stage from there does not fit, no longer one does.
bool ChainSearch::next(int stage, const Positions& before, int low, Limit& limit,
                       Positions& found) const {
  found.clear();
  const bool last_stage = stage + 1 == stages_;
  // Every later stage needs a layer.
  const int high = layers_ - (stages_ - 1 - stage);
  std::size_t nearest = 0;
  for (int l = std::max(low, before.front() + 1); l <= high; ++l) {
    while (nearest + 1 < before.size() && before[nearest + 1] < l) ++nearest;
    if (!fits(stage, before[nearest], l, limit)) {
      // Beyond the last beginning everything is longer still.
      if (nearest + 1 == before.size()) break;
      continue;
    }
    if (last_stage || limit.keeps(cut(stage + 1, l))) found.push_back(l);
  }
  return !found.empty() && (!last_stage || found.back() == layers_);
}

std::optional<std::vector<ChainSearch::Positions>> ChainSearch::reachable(Limit& limit) const {
  const std::vector<int> low = earliest(limit);
  if (low.front() > 0) return std::nullopt;
  std::vector<Positions> begins(at(stages_) + 1);
  begins[0] = {0};
  for (int s = 0; s < stages_; ++s) {
    const int from = s + 1 == stages_ ? layers_ : low[at(s + 1)];
    if (!next(s, begins[at(s)], from, limit, begins[at(s + 1)])) return std::nullopt;
  }
  return begins;
}

// The same without keeping the way.
bool ChainSearch::feasible(Limit& limit) const {
  if (plain_) {
    // packs() tells no times, so the limit itself stands for the longest that was kept, and one
    // more for the least that was refused.
    limit.kept = limit.most;
    limit.refused = limit.most + 1;
    return packs(limit.most);
  }
  const std::vector<int> low = earliest(limit);
  if (low.front() > 0) return false;
  Positions before{0}, found;
  for (int s = 0; s < stages_; ++s) {
    const int from = s + 1 == stages_ ? layers_ : low[at(s + 1)];
    if (!next(s, before, from, limit, found)) return false;
    std::swap(before, found);
  }
  return true;
}

// Equal devices: each stage as long as the limit lets it be. Fewer stages than there are can be
// cut once more without harm.
bool ChainSearch::packs(std::int64_t limit) const {
  const auto& sums = sums_.front();
  auto from = sums.begin();
  for (int s = 0; s < stages_; ++s) {
    const std::int64_t most = *from + limit;
    // Stages are short beside the chain: double the step, then halve it.
    std::ptrdiff_t step = 1;
    while (step < sums.end() - from && from[step] <= most) step *= 2;
    const auto to = step < sums.end() - from ? from + step : sums.end();
    from = std::upper_bound(from + step / 2, to, most) - 1;
    if (from + 1 == sums.end()) return true;
  }
  return false;
}

// Every layer is in a stage, on a device that is the fastest there is for it, and all of them on so
// many devices.
std::int64_t ChainSearch::lower_bound() const {
  std::int64_t longest = 0, all = 0;
  for (int l = 0; l < layers_; ++l) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const auto& times : problem_.layer_ns) least = std::min(least, times[at(l)]);
    longest = std::max(longest, least);
    all += least;
  }
  return weight_ * std::max(longest, (all + stages_ - 1) / stages_);
}

std::optional<std::int64_t> ChainSearch::least_limit() const {
  std::int64_t low = lower_bound(), step = std::max<std::int64_t>(1, low / 64);
  // No partition is slower than all layers on the slowest stage, or than the longest message.
  std::int64_t most = 0;
  for (int s = 0; s < stages_; ++s) most = std::max(most, time(s, 0, layers_));
  most += head_.empty() ? 0 : head_.back();
  for (const auto& cuts : problem_.cut_ns.rows())
    for (const std::int64_t c : cuts) most = std::max(most, weight_ * c);
  // A limit that is too low is raised to the least time that it refused, one that is high enough
  // lowered to the longest that it kept: what lies between them would answer alike.
  std::int64_t high = low;
  for (;; step *= 2) {
    Limit limit{high};
    if (feasible(limit)) {
      high = limit.kept;
      break;
    }
    if (limit.refused > most) return std::nullopt;
    low = limit.refused;
    // Steps double, so a bound far too low costs few tries.
    high = std::clamp(high + step, low, most);
  }
  while (low < high) {
    Limit middle{low + (high - low) / 2};
    if (feasible(middle)) {
      high = middle.kept;
    } else {
      low = middle.refused;
    }
  }
  return high;
}

std::vector<int> ChainSearch::packed(std::int64_t limit) const {
  const auto& sums = sums_.front();
  std::vector<int> boundaries;
  for (int s = 0, first = 0; s + 1 < stages_; ++s) {
    const auto end = std::upper_bound(sums.begin() + first, sums.end(), sums[at(first)] + limit);
    // Every later stage needs a layer.
    first = std::min(static_cast<int>(end - sums.begin()) - 1, layers_ - (stages_ - 1 - s));
    boundaries.push_back(first);
  }
  return boundaries;
}

std::optional<std::vector<int>> ChainSearch::front_heavy(std::int64_t limit) const {
  if (plain_) return packs(limit) ? std::optional(packed(limit)) : std::nullopt;
  Limit under{limit};
  const auto begins = reachable(under);
  if (!begins) return std::nullopt;
  std::vector<int> boundaries;
  // From the end, each stage as short as can be: the layers go to those before it.
  for (int s = stages_ - 1, last = layers_; s > 0; --s) {
    const Positions& from = (*begins)[at(s)];
    auto nearest = std::ranges::lower_bound(from, last);
    last = *--nearest;
    boundaries.push_back(last);
  }
  std::ranges::reverse(boundaries);
  return boundaries;
}

std::optional<std::vector<int>> ChainSearch::even(std::int64_t limit) const {
  Limit under{limit};
  const auto begins = reachable(under);
  if (!begins) return std::nullopt;
  std::vector<Squares> before{0}, best;
  std::vector<std::vector<int>> from(at(stages_));
  for (int s = 0; s < stages_; ++s) {
    const Positions &columns = (*begins)[at(s)], &rows = (*begins)[at(s + 1)];
    const auto value = [&](int row, int column) -> std::optional<Squares> {
      const int first = columns[at(column)], last = rows[at(row)];
      if (first >= last || !fits(s, first, last, under)) return std::nullopt;
      const auto stage = static_cast<Squares>(time(s, first, last));
      const auto crossing = static_cast<Squares>(cut(s, first));
      return before[at(column)] + stage * stage + crossing * crossing;
    };
    best.assign(rows.size(), 0);
    from[at(s)].assign(rows.size(), -1);
    // Squares are convex: the best column ascends with the row (docs/theory.md 4.1).
    MonotoneMinima(value, best, from[at(s)])
        .solve(0, static_cast<int>(rows.size()) - 1, 0, static_cast<int>(columns.size()) - 1);
    std::swap(before, best);
  }
  std::vector<int> boundaries;
  // Back from the end of the chain, along the first best beginning of each stage.
  int row = static_cast<int>((*begins)[at(stages_)].size()) - 1;
  for (int s = stages_ - 1; s > 0; --s) {
    row = from[at(s)][at(row)];
    boundaries.push_back((*begins)[at(s)][at(row)]);
  }
  std::ranges::reverse(boundaries);
  return boundaries;
}

}  // namespace weir
