// Starts are tried one after the other, each at the first time that none before it forbids.
// SPDX-License-Identifier: Apache-2.0
#include "sim/synthesis/pace.hpp"

#include <algorithm>
#include <cmath>
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

class Starts {
 public:
  Starts(const std::vector<Due>& dues, std::int64_t period) : dues_(dues), period_(period) {
    for (std::int64_t apart = 0; apart < period_; ++apart) free_.push_back(are_free(apart));
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
    // The remainder of a negative number is negative, hence twice.
    const std::int64_t apart = ((b - a) % period_ + period_) % period_;
    return apart < a_length || period_ - apart < b_length;
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
    return std::ranges::all_of(starts_,
                               [&](std::int64_t other) { return free_[at(start - other)]; });
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
      while (time <= last && taken(time)) ++time;
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
    // Modulo scheduling (Rau): places are tried depth first, and given up after so many tries.
    for (std::int64_t start = starts_.back() + 1; start < period_; ++start) {
      if (++tries_ > kMostTries) return false;
      if (!fits(start)) continue;
      starts_.push_back(start);
      if (add(count)) return true;
      starts_.pop_back();
    }
    return false;
  }

  const std::vector<Due>& dues_;
  std::int64_t period_;
  std::vector<bool> free_;  // by distance
  std::vector<std::int64_t> starts_;
  std::int64_t tries_ = 0;
};

// Times in whole units, the nearest; an action takes one at least, a short message none.
SynthesisProblem in_units(const SynthesisProblem& problem, std::int64_t unit) {
  SynthesisProblem rounded = problem;
  const auto units = [unit](std::int64_t time) { return (time + unit / 2) / unit; };
  for (SynthesisTimes& times : rounded.stages) {
    for (std::int64_t* time : {&times.f, &times.i, &times.w})
      *time = std::max<std::int64_t>(1, units(*time));
  }
  for (auto* messages : {&rounded.forward_ns, &rounded.backward_ns}) {
    for (std::int64_t& message : *messages) message = units(message);
  }
  return rounded;
}

// A period is a micro-batch's way down and back with its W at least, and `most` ones' work on any
// stage.
std::int64_t least_period(const SynthesisProblem& problem, const std::vector<Due>& due,
                          std::int64_t most) {
  std::int64_t least = due.front().backward + due.front().i + problem.stages.front().w;
  for (const SynthesisTimes& t : problem.stages) least = std::max(least, most * (t.f + t.i + t.w));
  return least;
}

// What divides all times, where that leaves few enough starts to try; and parts of the shortest
// action, of which times are not whole multiples.
std::vector<std::int64_t> units_of(const SynthesisProblem& problem, std::int64_t least) {
  std::int64_t divisor = 0, shortest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t s = 0; s < problem.stages.size(); ++s) {
    const SynthesisTimes& t = problem.stages[s];
    for (const std::int64_t time : {t.f, t.i, t.w, problem.forward_ns[s], problem.backward_ns[s]})
      divisor = std::gcd(divisor, time);
    shortest = std::min({shortest, t.f, t.i, t.w});
  }
  std::vector<std::int64_t> units{divisor};
  for (const std::int64_t parts : {1, 2, 4, 8}) units.push_back(shortest / parts);
  constexpr std::int64_t kMostStarts = 400;
  std::erase_if(units, [&](std::int64_t unit) { return unit < 1 || least / unit > kMostStarts; });
  std::vector<std::int64_t> once;
  for (const std::int64_t unit : units) {
    if (std::ranges::find(once, unit) == once.end()) once.push_back(unit);
  }
  return once;
}

}  // namespace

std::vector<std::vector<std::int64_t>> paces_of(const SynthesisProblem& problem) {
  const ScheduleShape& shape = problem.shape;
  const std::int64_t kept = std::max<std::int64_t>(1, problem.kept.front());
  const std::int64_t most = problem.room[shape.rank_of(Stage{0}).position()] / kept;
  // A chain whose first stage has room for two or more, but not for all.
  if (shape.stages != shape.ranks || most < 2 || most >= shape.microbatches) return {};
  const std::int64_t least = least_period(problem, dues(problem), most);
  constexpr std::int64_t kPeriods = 12;
  std::vector<std::vector<std::int64_t>> paces;
  for (const std::int64_t unit : units_of(problem, least)) {
    const SynthesisProblem rounded = in_units(problem, unit);
    const std::vector<Due> due = dues(rounded);
    const std::int64_t least_units = least_period(rounded, due, most);
    // As long as the times are that were rounded.
    const double length = static_cast<double>(least) / static_cast<double>(least_units);
    for (std::int64_t period = least_units; period < least_units + kPeriods; ++period) {
      const std::vector<std::int64_t> starts = Starts(due, period).find(at(most));
      if (starts.empty()) continue;
      std::vector<std::int64_t>& begins = paces.emplace_back();
      for (std::int64_t m = 0; m < shape.microbatches; ++m) {
        const std::int64_t begin = m / most * period + starts[at(m % most)];
        begins.push_back(std::llround(static_cast<double>(begin) * length));
      }
    }
  }
  return paces;
}

}  // namespace weir
