// Invariants that hold for whole families of schedules (docs/theory.md 3.5): steady periods, memory
// against round trips, time reversal, refinement, and peaks in flight to the last unit. Seeds are
// fixed and printed with a failure.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "costmodel/table/cost_table.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/validate.hpp"
#include "sim/engine/event_engine.hpp"

namespace weir::invariants_test {
namespace {

struct Stages {
  std::vector<std::int64_t> f, b;  // B = I + W
  std::int64_t c = 0;              // latency of a crossing
};

CostTable table_of(const Stages& s) {
  CostTable table;
  for (std::size_t i = 0; i < s.f.size(); ++i) {
    const std::int64_t w = s.b[i] / 3;
    table.stages.push_back({{.f = Nanoseconds(s.f[i]),
                             .i = Nanoseconds(s.b[i] - w),
                             .w = Nanoseconds(w),
                             .b = Nanoseconds(s.b[i])}});
  }
  table.forward_messages.assign(s.f.size(), {Nanoseconds(0), Nanoseconds(s.c)});
  table.backward_messages = table.forward_messages;
  return table;
}

std::int64_t makespan(const Schedule& schedule, const Stages& stages) {
  LoweringOptions options;
  options.slots = 0;
  options.optimizer = false;
  const Program program = lower(schedule, options);
  return std::get<Timing>(simulate(program, expand(program, table_of(stages)))).makespan.count();
}
Schedule made(const char* name, int k, int v, int m) {
  return std::get<Schedule>(make_schedule(name, {k, v, m}));
}

class Random {
 public:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  Stages stages(int k) {
    Stages s;
    for (int i = 0; i < k; ++i) {
      s.f.push_back(pick(1, 20));
      s.b.push_back(pick(1, 30));
    }
    s.c = pick(0, 6);
    return s;
  }

 private:
  std::mt19937 random_{29};
};

// The most that a micro-batch costs in the long run, times `horizon`: over all s <= t,
//   (sum of F + B from s to t, and twice the crossings between) / (w_s - w_t + 1),  w the warm-ups.
// Theory A.0, G 8; exact for 1F1B-like orders. `horizon` is divisible by every denominator.
std::int64_t steady(const Stages& s, int warmup_per_rank, std::int64_t horizon) {
  const auto k = static_cast<int>(s.f.size());
  std::int64_t most = 0;
  for (int first = 0; first < k; ++first) {
    std::int64_t work = 0;
    for (int last = first; last < k; ++last) {
      const auto i = static_cast<std::size_t>(last);
      work += s.f[i] + s.b[i] + (last > first ? 2 * s.c : 0);
      most = std::max(most, work * (horizon / (warmup_per_rank * (last - first) + 1)));
    }
  }
  return most;
}

// A long run and one longer by 420 = lcm(1..7) micro-batches differ by 420 periods, for 1F1B and
// its eager kin.
TEST(SteadyPeriod, IsTheMaximumCycleRatio) {
  Random random;
  constexpr int kLong = 300, kHorizon = 420;
  for (int trial = 0; trial < 60; ++trial) {
    const Stages s = random.stages(random.pick(1, 4));
    const auto k = static_cast<int>(s.f.size());
    for (const auto& [name, warmup] : {std::pair("1f1b", 1), std::pair("1f1b-eager", 2)}) {
      const std::int64_t gained =
          makespan(made(name, k, 1, kLong + kHorizon), s) - makespan(made(name, k, 1, kLong), s);
      ASSERT_EQ(gained, steady(s, warmup, kHorizon)) << name << ", seed 29, trial " << trial;
      // Little's law: no more than a rank's peak in flight can be on the way at once. Theory G 15.
      const auto peaks = peak_in_flight(made(name, k, 1, kLong));
      std::int64_t round_trip = 0;
      for (int rank = k - 1; rank >= 0; --rank) {
        const auto i = static_cast<std::size_t>(rank);
        round_trip += s.f[i] + s.b[i] + (rank + 1 < k ? 2 * s.c : 0);
        ASSERT_GE(gained * peaks[i], kHorizon * round_trip) << name << ", seed 29, trial " << trial;
      }
    }
  }
}

// Equal stages: 1F1B pays F + B + 2c (K-1)/K for a micro-batch, eager 1F1B hides 2c <= F + B.
// Theory 0.3.
TEST(SteadyPeriod, LatencyIsPaidOrHidden) {
  const Stages s{{6, 6, 6, 6}, {12, 12, 12, 12}, 2};
  EXPECT_EQ(makespan(made("1f1b", 4, 1, 200), s) - makespan(made("1f1b", 4, 1, 100), s),
            100 * 18 + 100 * 3);
  EXPECT_EQ(makespan(made("1f1b-eager", 4, 1, 200), s) - makespan(made("1f1b-eager", 4, 1, 100), s),
            100 * 18);
}

// Each rank's list backwards, forwards for backwards and the last micro-batch for the first: the
// same time. Theory G 19.
TEST(TimeReversal, KeepsTheMakespan) {
  Random random;
  for (int trial = 0; trial < 200; ++trial) {
    const Stages s = random.stages(random.pick(1, 5));
    const char* name = random.pick(0, 1) == 0 ? "gpipe" : "1f1b";
    const Schedule schedule = made(name, static_cast<int>(s.f.size()), 1, random.pick(1, 12));
    Schedule reversed = schedule;
    for (auto& order : reversed.order) {
      std::reverse(order.begin(), order.end());
      for (Action& action : order) {
        action.kind = action.kind == ActionKind::F ? ActionKind::B : ActionKind::F;
        action.microbatch.value = schedule.shape.microbatches - 1 - action.microbatch.value;
      }
    }
    ASSERT_FALSE(validate(reversed)) << name << ", seed 29, trial " << trial;
    ASSERT_EQ(makespan(reversed, {s.b, s.f, s.c}), makespan(schedule, s))
        << name << ", seed 29, trial " << trial;
  }
}

// B cut into I and W in a row: the gradient leaves earlier and nothing else changes, so nothing
// ends later. Theory G 20.
TEST(Refinement, SplittingTheBackwardInPlaceNeverHurts) {
  Random random;
  for (int trial = 0; trial < 200; ++trial) {
    const Stages s = random.stages(random.pick(1, 5));
    const char* name = random.pick(0, 1) == 0 ? "gpipe" : "1f1b";
    const Schedule whole = made(name, static_cast<int>(s.f.size()), 1, random.pick(1, 12));
    Schedule split = whole;
    for (auto& order : split.order) {
      std::vector<Action> cut;
      for (const Action& action : order) {
        if (action.kind != ActionKind::B) {
          cut.push_back(action);
          continue;
        }
        cut.push_back({action.stage, ActionKind::I, action.microbatch});
        cut.push_back({action.stage, ActionKind::W, action.microbatch});
      }
      order = cut;
    }
    ASSERT_FALSE(validate(split));
    ASSERT_LE(makespan(split, s), makespan(whole, s)) << name << ", seed 29, trial " << trial;
  }
}

// Peaks in flight, in chunks: V-Min 2 floor((K+4)/3), V-Half 2 floor((K+2)/2), DualPipeV 2K+1 on
// every rank, DualPipe K+1, eager 1F1B min(M, 2(K-k)-1). Theory G 7.
TEST(Peaks, AreExact) {
  const auto most = [](const Schedule& schedule) {
    const auto peaks = peak_in_flight(schedule);
    return *std::max_element(peaks.begin(), peaks.end());
  };
  for (int k = 2; k <= 14; ++k) {
    const int m = 4 * k;
    EXPECT_EQ(most(made("v-min", k, 2, m)), 2 * ((k + 4) / 3)) << k;
    EXPECT_EQ(most(made("v-half", k, 2, m)), 2 * ((k + 2) / 2)) << k;
    for (const std::int32_t peak : peak_in_flight(made("dualpipev", k, 2, m)))
      EXPECT_EQ(peak, 2 * k + 1) << k;
    if (k % 2 == 0) {
      for (const std::int32_t peak : peak_in_flight(made("dualpipe", k, 1, m)))
        EXPECT_EQ(peak, k + 1) << k;
    }
    const auto eager = peak_in_flight(made("1f1b-eager", k, 1, m));
    for (int rank = 0; rank < k; ++rank)
      EXPECT_EQ(eager[static_cast<std::size_t>(rank)], std::min(m, 2 * (k - rank) - 1));
  }
}

// DualPipe on K ranks with M micro-batches is DualPipeV on K/2 with M/2, run from both ends. Theory
// G 6.
TEST(DualPipe, IsTwoMirroredDualPipeVs) {
  for (int r = 1; r <= 5; ++r) {
    for (int m = 2 * r; m <= 4 * r + 3; ++m) {
      const std::size_t stages = 2 * static_cast<std::size_t>(r);
      const Stages one{std::vector<std::int64_t>(stages, 5), std::vector<std::int64_t>(stages, 12),
                       0};
      const Stages two{std::vector<std::int64_t>(2 * stages, 5),
                       std::vector<std::int64_t>(2 * stages, 12), 0};
      EXPECT_EQ(makespan(made("dualpipe", 2 * r, 1, 2 * m), two),
                makespan(made("dualpipev", r, 2, m), one))
          << "R " << r << " M " << m;
    }
  }
}

}  // namespace
}  // namespace weir::invariants_test
