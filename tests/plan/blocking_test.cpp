// Blocking transfers: which schedules survive them, and the smallest example of one that does not.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/blocking.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/program/deadlock.hpp"
#include "plan/program/lower.hpp"
#include "plan/program/slot_walk.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/schedule_csv.hpp"

namespace weir::blocking_test {
namespace {

using testing::HasSubstr;

Program blocked(const Schedule& schedule, TransferMode mode) {
  LoweringOptions options;
  options.slots = 0;
  return block_transfers(lower(schedule, options), mode);
}
Program blocked(const char* name, int k, int m, TransferMode mode) {
  return blocked(std::get<Schedule>(make_schedule(name, {k, 1, m})), mode);
}

// All forwards, then all backwards: sends and receives never face each other, so GPipe needs no
// buffers at all.
TEST(Blocking, GpipeNeedsNoBuffers) {
  for (int k = 1; k <= 5; ++k) {
    for (int m = 1; m <= 7; ++m) {
      EXPECT_FALSE(find_cycle(blocked("gpipe", k, m, TransferMode::rendezvous))) << k << " " << m;
      EXPECT_FALSE(find_cycle(blocked("gpipe", k, m, TransferMode::batched))) << k << " " << m;
    }
  }
}

// K = 2, M = 2 under 1F1B: rank 0 runs 0F0, 0F1 and sends 0F1's output; rank 1 runs 1F0, 1B0 and
// sends 1B0's gradient. Each waits for the other to receive. One micro-batch has nothing to cross.
// As an NCCL group the send and the receive of each rank are posted together, and nothing waits.
TEST(Blocking, OneForwardOneBackwardCrossesUnlessBatched) {
  EXPECT_FALSE(find_cycle(blocked("1f1b", 2, 1, TransferMode::rendezvous)));
  const Program crossed = blocked("1f1b", 2, 2, TransferMode::rendezvous);
  const auto cycle = shortest_cycle(crossed);
  ASSERT_TRUE(cycle);
  EXPECT_EQ(cycle->size(), 2U);  // two sends, each to be received only after the other has ended
  const std::string text = describe_cycle(crossed, *cycle);
  EXPECT_THAT(text, HasSubstr("0SEND_F1"));
  EXPECT_THAT(text, HasSubstr("1SEND_B0"));
  for (int k = 2; k <= 6; ++k) {
    for (int m = 1; m <= 9; ++m)
      EXPECT_FALSE(find_cycle(blocked("1f1b", k, m, TransferMode::batched))) << k << " " << m;
  }
}

// A receiver that takes the second message first: buffers absorb it, a group does not, and one slot
// does not either.
TEST(Blocking, OrderOfReceivesMatters) {
  const Schedule swapped = parse_schedule_csv("0F0,0F1,0B0,0B1\n1F1,1F0,1B0,1B1\n", "swapped.csv");
  EXPECT_TRUE(find_cycle(blocked(swapped, TransferMode::batched)));
  EXPECT_EQ(fewest_slots(swapped, 1), 2);
}

// Doubling and halving finds what asking for one slot more at a time does: rank 1 takes the
// messages in any order, so that from one slot to one a micro-batch is needed.
TEST(FewestSlots, AreThoseOfALinearSearch) {
  std::mt19937 random(20261122);
  for (int sample = 0; sample < 60; ++sample) {
    Schedule schedule = std::get<Schedule>(make_schedule("gpipe", {2, 1, 1 + sample % 12}));
    const auto forwards = schedule.order[Rank{1}].begin();
    std::shuffle(forwards, forwards + schedule.shape.microbatches, random);
    for (const int at_least : {1, 2, 5}) {
      LoweringOptions options{.slots = at_least, .optimizer = false};
      while (find_cycle(lower(schedule, options))) ++options.slots;
      EXPECT_EQ(fewest_slots(schedule, at_least), options.slots) << "sample " << sample;
    }
  }
  // A cycle that no slots undo.
  const Schedule crossed = parse_schedule_csv("0B0,0F0\n1F0,1B0\n", "crossed.csv");
  for (const int at_least : {1, 2, 9}) EXPECT_EQ(fewest_slots(crossed, at_least), 0);
}

// By counting as by a cycle of the program: every schedule, small and any, with few slots and
// without a limit; as it is made, and with two neighbours of a rank's order exchanged.
TEST(SlotWalk, EndsWhereTheProgramHasNoCycle) {
  std::mt19937 random(20261125);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution(low, high)(random);
  };
  int ended = 0, stuck = 0;
  for (const Generator& generator : generators()) {
    for (int draw = 0; draw < 120; ++draw) {
      const int parts = pick(1, 4);
      const bool in_slices = generator.default_slices > 1;
      const auto made = make_schedule(
          generator.name, {pick(1, 5), in_slices ? 1 : parts, pick(1, 12), in_slices ? parts : 1});
      if (std::holds_alternative<std::string>(made)) continue;
      Schedule schedule = std::get<Schedule>(made);
      if (draw % 2 == 1) {
        auto& order = schedule.order[Rank{pick(0, schedule.shape.ranks - 1)}];
        const auto one = order.begin() + pick(0, static_cast<int>(order.size()) - 2);
        std::iter_swap(one, one + 1);
      }
      SlotWalk walk(schedule);
      for (const int slots : {1, 2, 3, 0, pick(4, 9)}) {
        const bool cycle =
            find_cycle(lower(schedule, {.slots = slots, .optimizer = false})).has_value();
        EXPECT_EQ(walk.ends(slots), !cycle)
            << generator.name << ", draw " << draw << ", " << slots << " slots";
        ++(cycle ? stuck : ended);
      }
    }
  }
  EXPECT_GT(ended, 1'000);
  EXPECT_GT(stuck, 300);
}

// The shortest cycle is a cycle, and no longer than the one a depth-first search stumbles on.
TEST(Deadlock, TheShortestCycleIsOne) {
  for (const char* name : {"1f1b", "zb-h1", "1f1b-eager"}) {
    for (int k = 2; k <= 5; ++k) {
      const Program program = blocked(name, k, 6, TransferMode::rendezvous);
      const auto any = find_cycle(program), least = shortest_cycle(program);
      ASSERT_TRUE(any && least) << name;
      EXPECT_LE(least->size(), any->size());
      for (std::size_t i = 0; i < least->size(); ++i) {
        const OperationId id = (*least)[i], before = (*least)[(i + 1) % least->size()];
        bool waits = program.lane_of(id).first != id && before == id - 1;
        for (const Dependency& d : program.predecessors(id)) waits |= d.before == before;
        EXPECT_TRUE(waits) << name << " step " << i;
      }
    }
  }
}

}  // namespace
}  // namespace weir::blocking_test
