// Starts are tried one after the other, each at the first time that none before it forbids.
// SPDX-License-Identifier: Apache-2.0
#include "sim/synthesis/pace.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

namespace weir {
namespace {

// On one rank: when F and I of a micro-batch that began at 0 are due, and how long they and W take.
struct Due {
  std::int64_t forward = 0, f = 0, backward = 0, i = 0, w = 0;
};

std::vector<Due> dues(const SynthesisProblem& problem) {
  std::vector<Due> all(problem.stages.size());
  std::int64_t now = 0;
  for (std::size_t s = 0; s < all.size(); ++s) {
    all[s].forward = now;
    all[s].f = problem.stages[s].f;
    all[s].i = problem.stages[s].i;
    all[s].w = problem.stages[s].w;
    now += all[s].f + (s + 1 < all.size() ? problem.forward_ns[s] : 0);
  }
  for (std::size_t s = all.size(); s-- > 0;) {
    all[s].backward = now;
    now += all[s].i + (s > 0 ? problem.backward_ns[s] : 0);
  }
  return all;
}

// Times are looked at in steps of `grid`. What overlaps by less than `slack` can wait for so long:
// messages that are short beside the actions put them off a little, and no pace fits exactly.
struct Resolution {
  std::int64_t grid = 0;
  std::int64_t slack = 0;
};

class Starts {
 public:
  Starts(std::vector<Due> dues, std::int64_t period, const Resolution& resolution)
      : dues_(std::move(dues)), period_(period), grid_(resolution.grid), slack_(resolution.slack) {
    for (std::int64_t apart = 0; apart < period_; apart += grid_) free_.push_back(are_free(apart));
  }

  // `count` starts within a period; empty where none were found with little effort.
  [[nodiscard]] std::vector<std::int64_t> find(std::size_t count) {
    starts_ = {0};
    if (!itself() || !add(count)) return {};
    return starts_;
  }

 private:
  // Whether [a, a + a_length) and [b, b + b_length) meet, both repeated every period.
  [[nodiscard]] bool meet(std::int64_t a, std::int64_t a_length, std::int64_t b,
                          std::int64_t b_length) const {
    const std::int64_t apart = ((b - a) % period_ + period_) % period_;
    return apart < a_length - slack_ || period_ - apart < b_length - slack_;
  }
  // Whether a micro-batch's F and I are due at different times on each rank.
  [[nodiscard]] bool itself() const {
    return std::ranges::none_of(
        dues_, [this](const Due& due) { return meet(due.forward, due.f, due.backward, due.i); });
  }
  // The same of two, the second of which begins so much later.
  [[nodiscard]] bool are_free(std::int64_t apart) const {
    return std::ranges::none_of(dues_, [&](const Due& due) {
      const std::int64_t forward = due.forward + apart, backward = due.backward + apart;
      return meet(due.forward, due.f, forward, due.f) ||
             meet(due.backward, due.i, backward, due.i) ||
             meet(due.forward, due.f, backward, due.i) || meet(due.backward, due.i, forward, due.f);
    });
  }
  [[nodiscard]] bool fits(std::int64_t start) const {
    return std::ranges::all_of(
        starts_, [&](std::int64_t other) { return free_[at((start - other) / grid_)]; });
  }
  // Whether each micro-batch's W can follow its I on the rank, at the first time that is free, and
  // end before the next period's F that takes its room.
  [[nodiscard]] bool weights_fit(const Due& due) const {
    std::vector<std::int64_t> placed;
    for (const std::int64_t start : starts_) {
      const auto taken = [&](std::int64_t time) {
        const auto met_by = [&](std::int64_t other) {
          return meet(other + due.forward, due.f, time, due.w) ||
                 meet(other + due.backward, due.i, time, due.w);
        };
        const auto met_by_weight = [&](std::int64_t other) {
          return meet(other, due.w, time, due.w);
        };
        return std::ranges::any_of(starts_, met_by) || std::ranges::any_of(placed, met_by_weight);
      };
      const std::int64_t last = start + due.forward + period_ - due.w;
      std::int64_t time = start + due.backward + due.i;
      while (time <= last && taken(time)) time += grid_;
      if (time > last) return false;
      placed.push_back(time);
    }
    return true;
  }
  bool add(std::size_t count) {
    if (starts_.size() == count) {
      return std::ranges::all_of(dues_, [this](const Due& due) { return weights_fit(due); });
    }
    constexpr std::int64_t kMostTries = 20'000;
    for (std::int64_t start = starts_.back() + grid_; start < period_; start += grid_) {
      if (++tries_ > kMostTries) return false;
      if (!fits(start)) continue;
      starts_.push_back(start);
      if (add(count)) return true;
      starts_.pop_back();
    }
    return false;
  }

  std::vector<Due> dues_;
  std::int64_t period_, grid_, slack_;
  std::vector<bool> free_;  // by distance, in grid steps
  std::vector<std::int64_t> starts_;
  std::int64_t tries_ = 0;
};

}  // namespace

std::vector<std::vector<std::int64_t>> paces_of(const SynthesisProblem& problem) {
  const ScheduleShape& shape = problem.shape;
  const std::int64_t kept = std::max<std::int64_t>(1, problem.kept.front());
  const std::int64_t most = problem.room[shape.rank_of(Stage{0}).position()] / kept;
  if (shape.stages != shape.ranks || most < 2 || most >= shape.microbatches) return {};
  std::int64_t grid = 0, least = 0, shortest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t s = 0; s < problem.stages.size(); ++s) {
    const SynthesisTimes& t = problem.stages[s];
    for (const std::int64_t time : {t.f, t.i, t.w, problem.forward_ns[s], problem.backward_ns[s]})
      grid = std::gcd(grid, time);
    least = std::max(least, most * (t.f + t.i + t.w));
    shortest = std::min({shortest, t.f, t.i, t.w});
  }
  if (grid == 0) return {};
  const std::vector<Due> due = dues(problem);
  least = std::max(least, due.front().backward + due.front().i + problem.stages.front().w);
  // Times that have no divisor in common are taken as if they had.
  constexpr std::int64_t kMostStarts = 400, kPeriods = 12;
  while (least / grid > kMostStarts) grid *= 2;
  const std::int64_t step = std::max<std::int64_t>(1, shortest / (4 * grid)) * grid;
  const Resolution resolution{grid, shortest / 16};
  std::vector<std::vector<std::int64_t>> paces;
  for (std::int64_t p = 0; p < kPeriods; ++p) {
    const std::int64_t period = least / grid * grid + p * step;
    if (period < least) continue;
    const std::vector<std::int64_t> starts = Starts(due, period, resolution).find(at(most));
    if (starts.empty()) continue;
    std::vector<std::int64_t>& begins = paces.emplace_back();
    for (std::int64_t m = 0; m < shape.microbatches; ++m)
      begins.push_back(m / most * period + starts[at(m % most)]);
  }
  return paces;
}

}  // namespace weir
