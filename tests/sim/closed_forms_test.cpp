// The simulator against closed forms, in integers with ==. Legend: F and B times of a stage, c
// latency of a crossing, K ranks, M micro-batches. Seeds are fixed and printed with a failure.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "costmodel/table/cost_table.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "sim/bounds.hpp"
#include "sim/engine/event_engine.hpp"
#include "traces/metrics.hpp"

namespace weir::closed_forms_test {
namespace {

struct Case {
  const char* schedule = "gpipe";
  int m = 1;
  std::vector<std::int64_t> f, b;
  std::int64_t c = 0;
  std::int32_t slots = 0;
  bool recompute = false;
  RecomputePlacement placement = RecomputePlacement::early;
};

struct Outcome {
  Program program;
  OperationCosts costs;
  Timing timing;
  Trace trace;
  StepMetrics metrics;
};

Outcome simulate(const Case& c) {
  const auto k = static_cast<int>(c.f.size());
  const Schedule schedule = std::get<Schedule>(make_schedule(c.schedule, {k, 1, c.m}));
  LoweringOptions options;
  options.slots = c.slots;
  options.optimizer = false;
  if (c.recompute) options.recompute.assign(c.f.size(), true);
  options.placement = c.placement;
  CostTable table;
  for (int s = 0; s < k; ++s) {
    StageCost cost;
    cost.f = cost.r = Nanoseconds(c.f[static_cast<std::size_t>(s)]);
    cost.b = Nanoseconds(c.b[static_cast<std::size_t>(s)]);
    table.stages.push_back(cost);
  }
  table.forward_messages.assign(c.f.size(), {Nanoseconds(0), Nanoseconds(c.c)});
  table.backward_messages = table.forward_messages;
  Outcome out{lower(schedule, options), {}, {}, {}, {}};
  out.costs = expand(out.program, table);
  out.timing = std::get<Timing>(weir::simulate(out.program, out.costs));
  out.trace = to_trace(out.program, out.timing);
  out.metrics = step_metrics(out.program, out.trace);
  return out;
}

std::int64_t makespan(const Case& c) { return simulate(c).timing.makespan.count(); }
std::int64_t sum(const std::vector<std::int64_t>& v) {
  return std::accumulate(v.begin(), v.end(), std::int64_t{0});
}
std::int64_t most(const std::vector<std::int64_t>& v) {
  return *std::max_element(v.begin(), v.end());
}

int peak_in_flight(const Outcome& out, std::int32_t rank) {
  int now = 0, peak = 0;
  for (const Lane& lane : out.program.lanes()) {
    if (lane.kind != LaneKind::compute || lane.rank.value != rank) continue;
    for (const OperationId id : lane.operations()) {
      const ActionKind kind = out.program.op(id).action.kind;
      now += kind == ActionKind::F ? 1 : kind == ActionKind::B ? -1 : 0;
      peak = std::max(peak, now);
    }
  }
  return peak;
}

// Seeded cases over K, M, times and latency.
template <class Check>
void for_cases(int count, Check check) {
  std::mt19937_64 random(20190601);
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE("seed 20190601, case " + std::to_string(i));
    Case c;
    const auto k = static_cast<std::size_t>(pick(1, 8));
    c.m = static_cast<int>(pick(1, 20));
    for (std::size_t s = 0; s < k; ++s) {
      c.f.push_back(pick(1, 50));
      c.b.push_back(pick(1, 100));
    }
    c.c = pick(0, 9);
    check(c, pick);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Equal stages, c = 0: (M + K - 1)(F + B), bubble (K - 1) / (M + K - 1). Theory G 1.
TEST(ClosedForm, EqualStagesTakeTheFamousTime) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (int k = 1; k <= 8; ++k) {
      for (int m = 1; m <= 24; ++m) {
        const auto n = static_cast<std::size_t>(k);
        const Outcome out = simulate(
            {schedule, m, std::vector<std::int64_t>(n, 7), std::vector<std::int64_t>(n, 13)});
        ASSERT_EQ(out.timing.makespan.count(), (m + k - 1) * 20)
            << schedule << " K" << k << " M" << m;
        ASSERT_NEAR(out.metrics.bubble_fraction, (k - 1.0) / (m + k - 1.0), 1e-12);
        for (int rank = 0; rank < k; ++rank) {  // G 7: GPipe M; 1F1B min(M, K - k)
          ASSERT_EQ(peak_in_flight(out, rank),
                    schedule == std::string("gpipe") ? m : std::min(m, k - rank));
        }
      }
    }
  }
}

// GPipe, any stages and latency: sum F + sum B + (M-1)(max F + max B) + 2 (K-1) c. Theory G 2.
TEST(ClosedForm, HeterogeneousGpipe) {
  for_cases(400, [](const Case& c, auto) {
    const auto crossings = static_cast<std::int64_t>(c.f.size()) - 1;
    ASSERT_EQ(makespan(c),
              sum(c.f) + sum(c.b) + (c.m - 1) * (most(c.f) + most(c.b)) + 2 * crossings * c.c);
  });
}

// One micro-batch: there and back. One rank: all its work, no bubble. Theory G 9.
TEST(ClosedForm, OneMicrobatchAndOneRank) {
  for_cases(200, [](Case c, auto) {
    for (const char* schedule : {"gpipe", "1f1b"}) {
      c.schedule = schedule;
      Case one = c;
      one.m = 1;
      ASSERT_EQ(makespan(one),
                sum(c.f) + sum(c.b) + 2 * (static_cast<std::int64_t>(c.f.size()) - 1) * c.c);
      Case alone = c;
      alone.f.resize(1);
      alone.b.resize(1);
      const Outcome out = simulate(alone);
      ASSERT_EQ(out.timing.makespan.count(), c.m * (c.f[0] + c.b[0]));
      ASSERT_EQ(out.metrics.bubble_fraction, 0);
    }
  });
}

// Theory G 10-12: busy time is the work whatever the order; busy and idle fill K makespans; every
// edge's start is at or after its producer's end plus c; the time integral of in-flight
// micro-batches is the sum of their residences.
TEST(Conservation, WorkIdleCausalityAndLittlesLaw) {
  for_cases(300, [](Case c, auto pick) {
    c.schedule = pick(0, 1) == 0 ? "gpipe" : "1f1b";
    c.slots = static_cast<std::int32_t>(pick(0, 4));
    const Outcome out = simulate(c);
    Nanoseconds total{0};
    for (std::size_t rank = 0; rank < c.f.size(); ++rank) {
      const RankMetrics& metrics = out.metrics.ranks[rank];
      ASSERT_EQ(metrics.busy.count(), c.m * (c.f[rank] + c.b[rank]));
      ASSERT_EQ(metrics.busy + metrics.idle.total(), out.timing.makespan);
      total += metrics.busy + metrics.idle.total();
    }
    ASSERT_EQ(total, out.timing.makespan * static_cast<std::int64_t>(c.f.size()));
    const auto end = [&](OperationId id) { return out.timing.end_ns[id]; };
    for (const OperationId id : out.program.ids()) {
      const bool receive = out.program.lane_of(id).kind == LaneKind::receive;
      for (const Dependency& before : out.program.predecessors(id)) {
        if (receive) {
          ASSERT_GE(out.timing.end_ns[id], end(before.before) + c.c);
        } else {
          ASSERT_GE(out.timing.start_ns[id], end(before.before));
        }
      }
    }
    for (std::size_t rank = 0; rank < c.f.size(); ++rank) {
      std::vector<std::pair<std::int64_t, int>> changes;
      std::int64_t residences = 0;
      for (const Span& span : out.trace.spans) {
        if (span.lane != LaneKind::compute || span.rank.value != static_cast<std::int32_t>(rank))
          continue;
        const bool forward = span.action.kind == ActionKind::F;
        changes.emplace_back(forward ? span.start.count() : span.end.count(), forward ? 1 : -1);
        residences += forward ? -span.start.count() : span.end.count();
      }
      std::sort(changes.begin(), changes.end());
      std::int64_t area = 0, live = 0, last = 0;
      for (const auto& [time, change] : changes) {
        area += live * (time - last);
        live += change;
        last = time;
        ASSERT_GE(live, 0);
      }
      ASSERT_EQ(live, 0);
      ASSERT_EQ(area, residences);
    }
  });
}

// Scaling every duration scales the step. Theory G 16.
TEST(Metamorphic, Homogeneity) {
  for_cases(150, [](Case c, auto pick) {
    c.schedule = pick(0, 1) == 0 ? "gpipe" : "1f1b";
    c.slots = static_cast<std::int32_t>(pick(0, 3));
    Case scaled = c;
    for (auto& time : scaled.f) time *= 5;
    for (auto& time : scaled.b) time *= 5;
    scaled.c *= 5;
    ASSERT_EQ(makespan(scaled), 5 * makespan(c));
  });
}

// One operation longer by d lengthens the step by 0 to d; and the step is convex in its durations.
// Theory G 17, 18.
TEST(Metamorphic, MonotoneLipschitzAndConvex) {
  for_cases(150, [](Case c, auto pick) {
    c.schedule = pick(0, 1) == 0 ? "gpipe" : "1f1b";
    c.slots = static_cast<std::int32_t>(pick(0, 3));
    const Outcome before = simulate(c);
    OperationCosts longer = before.costs, middle = before.costs;
    const OperationId which{pick(0, static_cast<std::int64_t>(longer.duration_ns.size()) - 1)};
    const std::int64_t more = 2 * pick(1, 20);
    longer.duration_ns[which] += more;
    middle.duration_ns[which] += more / 2;
    const auto step = [&](const OperationCosts& costs) {
      return std::get<Timing>(weir::simulate(before.program, costs)).makespan.count();
    };
    const std::int64_t grown = step(longer) - step(before.costs);
    ASSERT_GE(grown, 0);
    ASSERT_LE(grown, more);
    ASSERT_LE(2 * step(middle), step(before.costs) + step(longer));
  });
}

// Two half steps are never faster than a whole one, and more micro-batches never shorten it. For
// GPipe throughput does not fall with M. Theory G 21 (1F1B's may, once c > 0: K = 2, F = 8, B = 2,
// c = 3 is the known case).
TEST(Metamorphic, SubAdditivityAndThroughput) {
  for_cases(150, [](Case c, auto pick) {
    c.schedule = pick(0, 1) == 0 ? "gpipe" : "1f1b";
    Case twice = c, next = c;
    twice.m *= 2;
    next.m += 1;
    ASSERT_LE(makespan(twice), 2 * makespan(c));
    ASSERT_GE(makespan(next), makespan(c));
    c.schedule = next.schedule = "gpipe";
    ASSERT_GE(next.m * makespan(c), c.m * makespan(next));
  });
  EXPECT_EQ(makespan({"1f1b", 10, {8, 8}, {2, 2}, 3}), 140);
  EXPECT_EQ(makespan({"1f1b", 11, {8, 8}, {2, 2}, 3}), 156);
}

// Fused re-materialisation is a backward longer by F; early is never later. Golden: K = 4, M = 8, F
// = 1, B = 2.
TEST(Recompute, EarlyIsNeverLaterThanFused) {
  const Case golden{"gpipe", 8, {1, 1, 1, 1}, {2, 2, 2, 2}, 0, 0, true, RecomputePlacement::early};
  EXPECT_EQ(makespan(golden), 41);
  Case fused = golden;
  fused.placement = RecomputePlacement::fused;
  EXPECT_EQ(makespan(fused), 44);
  for_cases(150, [](Case c, auto pick) {
    c.schedule = pick(0, 1) == 0 ? "gpipe" : "1f1b";
    Case longer = c;
    for (std::size_t s = 0; s < c.f.size(); ++s) longer.b[s] += c.f[s];
    c.recompute = true;
    c.placement = RecomputePlacement::fused;
    ASSERT_EQ(makespan(c), makespan(longer));
    const std::int64_t late = makespan(c);
    c.placement = RecomputePlacement::early;
    ASSERT_LE(makespan(c), late);
  });
}

// More slots never hurt, M slots are as good as unlimited, and the lower bound is one.
TEST(Slots, MoreNeverHurtAndTheBoundHolds) {
  for_cases(200, [](Case c, auto pick) {
    c.schedule = pick(0, 1) == 0 ? "gpipe" : "1f1b";
    c.slots = 0;
    const Outcome unlimited = simulate(c);
    ASSERT_LE(step_lower_bound(unlimited.program, unlimited.costs), unlimited.timing.makespan);
    std::int64_t before = std::numeric_limits<std::int64_t>::max();
    for (std::int32_t slots = 1; slots <= c.m; ++slots) {
      c.slots = slots;
      const std::int64_t now = makespan(c);
      ASSERT_LE(now, before);
      before = now;
    }
    ASSERT_EQ(before, unlimited.timing.makespan.count());
  });
}

// The bound is reached by 1F1B with equal stages: (M + K - 1)(F + B) = head + all work + tail of
// the last rank.
TEST(Bound, IsTightForEqualStages) {
  const Outcome out = simulate({"1f1b", 8, {5, 5, 5, 5}, {9, 9, 9, 9}});
  EXPECT_EQ(step_lower_bound(out.program, out.costs), out.timing.makespan);
}

// Of unequal stages each rank waits for the forwards before it, does all of its work, and its last
// gradient goes back through the stages before it: sum of (f + c) + M (f + b) + sum of (b + c).
TEST(Bound, IsTheWorstRanksHeadWorkAndTail) {
  for_cases(200, [](Case c, auto pick) {
    c.schedule = pick(0, 1) == 0 ? "gpipe" : "1f1b";
    const Outcome out = simulate(c);
    std::int64_t worst = 0, before = 0;
    for (std::size_t r = 0; r < c.f.size(); ++r) {
      worst = std::max(worst, before + c.m * (c.f[r] + c.b[r]));
      before += c.f[r] + c.b[r] + 2 * c.c;
    }
    ASSERT_EQ(step_lower_bound(out.program, out.costs).count(), worst);
  });
}

TEST(Engine, SameInputSameBytes) {
  for_cases(20, [](Case c, auto) {
    c.slots = 2;
    const Outcome a = simulate(c), b = simulate(c);
    ASSERT_EQ(a.trace, b.trace);
  });
}

// A program with a cycle ends in a report, not in a hang.
TEST(Engine, StuckSaysWhoWaitsForWhat) {
  Outcome out = simulate({"gpipe", 2, {1, 1}, {1, 1}});
  // Let the first operation wait for the last of its own lane.
  Program::Parts parts = out.program.parts();
  parts.dependencies = {};
  for (const OperationId id : out.program.ids()) {
    parts.dependencies.next();
    if (id == OperationId{0})
      parts.dependencies.add(parts.lanes[LaneId{0}].last - 1, DependencyKind::data);
    for (const Dependency& d : out.program.predecessors(id))
      parts.dependencies.add(d.before, d.kind);
  }
  const auto result = weir::simulate(Program(std::move(parts)), out.costs);
  ASSERT_TRUE(std::holds_alternative<Stuck>(result));
  EXPECT_NE(
      std::get<Stuck>(result).report.find("0F0 on rank 0 waits for the data of 0B1 on rank 0"),
      std::string::npos)
      << std::get<Stuck>(result).report;
}

}  // namespace
}  // namespace weir::closed_forms_test
