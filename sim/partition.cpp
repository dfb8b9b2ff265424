// The exact partition by dynamic programming, in two passes (docs/theory.md 4.1).
// SPDX-License-Identifier: Apache-2.0
#include "sim/partition.hpp"

#include <algorithm>
#include <cassert>
#include <compare>
#include <limits>

namespace weir {
namespace {

struct Value {
  std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
  double squares = 0;
  auto operator<=>(const Value&) const = default;
};

std::int64_t cut_time(const CutTimes& cuts, int stage, int first) {
  return cuts.empty() ? 0
                      : cuts[static_cast<std::size_t>(stage) - 1][static_cast<std::size_t>(first)];
}

// best[s][l]: layers [0, l) in s + 1 stages; from[s][l]: where its last stage begins. `better` adds
// a stage and the boundary before it to what was best of the stages before.
template <class Better>
std::vector<int> solve(std::span<const std::int64_t> times, int stages, const CutTimes& cuts,
                       Better better) {
  const auto layers = static_cast<int>(times.size());
  std::vector<std::int64_t> sum(times.size() + 1, 0);
  for (std::size_t l = 0; l < times.size(); ++l) sum[l + 1] = sum[l] + times[l];
  const auto width = static_cast<std::size_t>(layers) + 1;
  std::vector<std::vector<Value>> best(static_cast<std::size_t>(stages), std::vector<Value>(width));
  std::vector<std::vector<int>> from(best.size(), std::vector<int>(width, 0));
  const auto stage_time = [&](int first, int last) {
    return sum[static_cast<std::size_t>(last)] - sum[static_cast<std::size_t>(first)];
  };
  for (int l = 1; l <= layers; ++l) {
    best[0][static_cast<std::size_t>(l)] = better(Value{0, 0}, stage_time(0, l), 0);
  }
  for (int s = 1; s < stages; ++s) {
    for (int l = s + 1; l <= layers; ++l) {
      auto& target = best[static_cast<std::size_t>(s)][static_cast<std::size_t>(l)];
      for (int first = s; first < l; ++first) {
        const Value& before =
            best[static_cast<std::size_t>(s) - 1][static_cast<std::size_t>(first)];
        const Value value = better(before, stage_time(first, l), cut_time(cuts, s, first));
        // Only a better value replaces: ties keep the earlier boundary.
        if (value < target) {
          target = value;
          from[static_cast<std::size_t>(s)][static_cast<std::size_t>(l)] = first;
        }
      }
    }
  }
  std::vector<int> boundaries;
  for (int s = stages - 1, l = layers; s > 0; --s) {
    l = from[static_cast<std::size_t>(s)][static_cast<std::size_t>(l)];
    boundaries.push_back(l);
  }
  std::ranges::reverse(boundaries);
  return boundaries;
}

}  // namespace

std::vector<int> best_boundaries(std::span<const std::int64_t> times, int stages,
                                 const CutTimes& cuts) {
  const auto layers = static_cast<int>(times.size());
  assert(stages >= 1 && layers >= 1);
  if (stages > layers) {
    std::vector<int> boundaries;
    for (int s = 1; s < stages; ++s) boundaries.push_back(std::min(s, layers - 1));
    return boundaries;
  }
  assert(cuts.empty() || static_cast<int>(cuts.size()) == stages - 1);
  // Two passes, because (slowest, squares) does not decompose stage by stage: first the least
  // possible slowest time, then the least squares among partitions that keep to it.
  const auto slowest_of = [&](const std::vector<int>& boundaries) {
    std::int64_t slowest = 0;
    for (std::size_t s = 0; s <= boundaries.size(); ++s) {
      const int first = s == 0 ? 0 : boundaries[s - 1];
      const int last = s == boundaries.size() ? static_cast<int>(times.size()) : boundaries[s];
      std::int64_t sum = 0;
      for (int l = first; l < last; ++l) sum += times[static_cast<std::size_t>(l)];
      slowest = std::max({slowest, sum, s == 0 ? 0 : cut_time(cuts, static_cast<int>(s), first)});
    }
    return slowest;
  };
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  const auto narrow =
      solve(times, stages, cuts, [](const Value& before, std::int64_t time, std::int64_t cut) {
        return before.slowest == kNever ? Value{} : Value{std::max({before.slowest, time, cut}), 0};
      });
  const std::int64_t limit = slowest_of(narrow);
  return solve(times, stages, cuts,
               [limit](const Value& before, std::int64_t time, std::int64_t cut) {
                 if (before.slowest == kNever || time > limit || cut > limit) return Value{};
                 const auto stage = static_cast<double>(time), boundary = static_cast<double>(cut);
                 return Value{0, before.squares + stage * stage + boundary * boundary};
               });
}

}  // namespace weir
