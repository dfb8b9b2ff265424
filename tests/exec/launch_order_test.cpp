// SPDX-License-Identifier: Apache-2.0
#include "exec/launch_order.hpp"

#include <gtest/gtest.h>

#include <string>

#include "plan/error.hpp"
#include "plan/lower.hpp"
#include "plan/schedules/schedules.hpp"

namespace weir {
namespace {

std::string in_words(const Program& program, LaneKind kind) {
  std::string words;
  for (const OperationId id : launch_order(program)) {
    if (program.lane_of(id).kind != kind) continue;
    words += (words.empty() ? "" : " ") + to_string(program.operations[static_cast<std::size_t>(id)].action);
  }
  return words;
}

// 1F1B, K = 2, M = 3; F and the optimizer take 1, B 2:
//   time    0  1  2  3  4  5  6  7  8  9  10 11 12
//   rank 0  F0 F1 .  .  B0 ── F2 B1 ── .  B2 ── opt
//   rank 1  .  F0 B0 ── F1 B1 ── F2 B2 ── opt
// Of what begins at the same time rank 0's goes first; a message goes at the end of what makes it.
TEST(LaunchOrder, IsTheForecastsWithUnitTimes) {
  LoweringOptions options;
  options.slots = 0;
  const Program program = lower(std::get<Schedule>(make_schedule("1f1b", {2, 1, 3})), options);
  EXPECT_EQ(in_words(program, LaneKind::compute),
            "0F0 0F1 1F0 1B0 0B0 1F1 1B1 0F2 0B1 1F2 1B2 0B2 1OPTIMIZER 0OPTIMIZER");
  EXPECT_EQ(in_words(program, LaneKind::send), "0SEND_F0 0SEND_F1 1SEND_B0 0SEND_F2 1SEND_B1 1SEND_B2");
}

// Every generator over a grid of sizes, with as few slots as it can do with, re-materialised, tied: every operation
// once, after its predecessor on its lane and all it waits for.
TEST(LaunchOrder, IsTopologicalForEverySchedule) {
  int programs = 0;
  for (const Generator& generator : generators()) {
    for (std::int32_t k = 1; k <= 6; ++k) {
      for (const std::int32_t m : {1, 2, 3, 4, 6, 8, 12, 16}) {
        for (std::int32_t v = 1; v <= 3; ++v) {
          const auto made = make_schedule(generator.name, {k, v, m});
          const auto* schedule = std::get_if<Schedule>(&made);
          if (schedule == nullptr) continue;
          LoweringOptions options;
          options.slots = fewest_slots(*schedule, 1);
          options.recompute.assign(static_cast<std::size_t>(schedule->shape.total_stages()), m % 2 == 0);
          if (schedule->shape.stages > 1) options.tied = {{Stage{0}, Stage{schedule->shape.stages - 1}}};
          const Program program = lower(*schedule, options);
          const std::vector<OperationId> order = launch_order(program);
          ASSERT_EQ(order.size(), program.operations.size());
          std::vector<bool> launched(order.size(), false);
          for (const OperationId id : order) {
            const auto done = [&](OperationId other) { return launched[static_cast<std::size_t>(other)]; };
            ASSERT_FALSE(done(id)) << generator.name;
            ASSERT_TRUE(id == program.lane_of(id).first || done(id - 1)) << generator.name;
            for (const Dependency& before : program.predecessors(id))
              ASSERT_TRUE(done(before.before)) << generator.name;
            launched[static_cast<std::size_t>(id)] = true;
          }
          ++programs;
        }
      }
    }
  }
  EXPECT_GT(programs, 500);
}

// The plan's border refuses such a program before; who comes another way is told who waits for whom.
TEST(LaunchOrder, ADeadlockIsReported) {
  LoweringOptions options;
  options.slots = 1;
  const Program program = lower(std::get<Schedule>(make_schedule("zb-v", {2, 2, 4})), options);
  try {
    static_cast<void>(launch_order(program));
    FAIL() << "an order of a program without one";
  } catch (const RunFailed& failed) {
    EXPECT_NE(std::string(failed.what()).find("waits for"), std::string::npos);
  }
}

}  // namespace
}  // namespace weir
