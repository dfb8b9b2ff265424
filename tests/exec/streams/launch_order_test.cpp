// SPDX-License-Identifier: Apache-2.0
#include "exec/streams/launch_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"

namespace weir::launch_order_test {
namespace {

std::string in_words(const Program& program, LaneKind kind) {
  std::string words;
  for (const OperationId id : launch_order(program)) {
    if (program.lane_of(id).kind != kind) continue;
    words += (words.empty() ? "" : " ") + to_string(program.op(id).action);
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
  EXPECT_EQ(in_words(program, LaneKind::send),
            "0SEND_F0 0SEND_F1 1SEND_B0 0SEND_F2 1SEND_B1 1SEND_B2");
}

// Every rank does its part of the order one operation after the other; a message needs both its
// ends at once, and the last reductions of the ranks that share a weight all of them. Returns
// whether all get through.
bool gets_through_in_single_file(const Program& program, const std::vector<std::int32_t>& sharing) {
  const auto ranks = static_cast<std::size_t>(program.shape().ranks);
  std::vector<std::vector<OperationId>> parts(ranks);
  std::vector<OperationId> last_reduction(ranks, kNoOperation);
  for (const OperationId id : launch_order(program)) {
    const Lane& lane = program.lane_of(id);
    parts[static_cast<std::size_t>(lane.rank.value)].push_back(id);
    if (lane.kind == LaneKind::reduce)
      last_reduction[static_cast<std::size_t>(lane.rank.value)] = id;
  }
  std::vector<std::size_t> next(ranks, 0);
  const auto head = [&](std::size_t rank) {
    return next[rank] < parts[rank].size() ? parts[rank][next[rank]] : kNoOperation;
  };
  const auto peer = [&](OperationId id) {  // the rank and operation of a message's other end
    return std::pair(program.peer_rank(id).position(), program.peer(id));
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const OperationId id = head(rank);
      if (id == kNoOperation) continue;
      const LaneKind kind = program.lane_of(id).kind;
      if (kind == LaneKind::send || kind == LaneKind::receive) {
        const auto [other, end] = peer(id);
        if (head(other) != end) continue;
        ++next[other];
      } else if (id == last_reduction[rank]) {
        bool all = true;
        for (const std::int32_t member : sharing) {
          const auto m = static_cast<std::size_t>(member);
          const bool passed =
              next[m] > 0 && last_reduction[m] != kNoOperation &&
              std::find(parts[m].begin(), parts[m].begin() + static_cast<std::ptrdiff_t>(next[m]),
                        last_reduction[m]) !=
                  parts[m].begin() + static_cast<std::ptrdiff_t>(next[m]);
          all = all && (passed || head(m) == last_reduction[m]);
        }
        if (!all) continue;
      }
      ++next[rank];
      moved = true;
    }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (next[rank] < parts[rank].size()) return false;
  }
  return true;
}

// Every generator over a grid of sizes, with as few slots as it can do with, re-materialised, tied:
// every operation once, after its predecessor on its lane and all it waits for.
TEST(LaunchOrder, IsTopologicalForEverySchedule) {
  int programs = 0;
  for (const Generator& generator : generators()) {
    for (std::int32_t k = 1; k <= 6; ++k) {
      for (const std::int32_t m : {1, 2, 3, 4, 6, 8, 12, 16}) {
        for (std::int32_t v = 1; v <= 3; ++v) {
          const bool in_slices = generator.default_slices > 1;  // v of them, then
          const auto made = in_slices ? make_schedule(generator.name, {k, 1, m, v})
                                      : make_schedule(generator.name, {k, v, m});
          const auto* schedule = std::get_if<Schedule>(&made);
          if (schedule == nullptr) continue;
          LoweringOptions options;
          options.slots = fewest_slots(*schedule, 1);
          options.recompute.assign(static_cast<std::size_t>(schedule->shape.total_stages()),
                                   m % 2 == 0);
          if (schedule->shape.stages > 1)
            options.tied = {{Stage{0}, Stage{schedule->shape.stages - 1}}};
          const Program program = lower(*schedule, options);
          const std::vector<OperationId> order = launch_order(program);
          ASSERT_EQ(order.size(), program.size());
          std::vector<bool> launched(order.size(), false);
          for (const OperationId id : order) {
            const auto done = [&](OperationId other) { return launched[other.position()]; };
            ASSERT_FALSE(done(id)) << generator.name;
            ASSERT_TRUE(id == program.lane_of(id).first || done(id - 1)) << generator.name;
            for (const Dependency& before : program.predecessors(id))
              ASSERT_TRUE(done(before.before)) << generator.name;
            launched[id.position()] = true;
          }
          const std::vector<std::int32_t> ends = {
              0, schedule->shape.rank_of(Stage{schedule->shape.stages - 1}).value};
          ASSERT_TRUE(gets_through_in_single_file(program, ends))
              << generator.name << " " << k << " " << v << " " << m;
          ++programs;
        }
      }
    }
  }
  EXPECT_GT(programs, 500);
}

// The plan's border refuses such a program before; who comes another way is told who waits for
// whom.
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
}  // namespace weir::launch_order_test
