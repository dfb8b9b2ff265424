// Schedules made for stages and memory as they are, held to every order there is.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/validate.hpp"
#include "sim/synthesis/bound.hpp"
#include "sim/synthesis/exact.hpp"
#include "sim/synthesis/greedy.hpp"
#include "sim/synthesis/improve.hpp"
#include "sim/synthesis/pace.hpp"
#include "sim/synthesis/synthesise.hpp"

namespace weir::synthesis_test {
namespace {

SynthesisProblem equal_stages(ScheduleShape shape, SynthesisTimes times, std::int64_t room) {
  SynthesisProblem p;
  p.shape = std::move(shape);
  p.stages.assign(at(p.shape.stages), times);
  p.forward_ns.assign(at(p.shape.stages), 0);
  p.backward_ns = p.forward_ns;
  p.kept.assign(at(p.shape.stages), 1);
  p.room.assign(at(p.shape.ranks), room);
  return p;
}

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  std::int64_t from(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  SynthesisProblem problem(const ScheduleShape& shape) {
    SynthesisProblem p = equal_stages(shape, {}, 0);
    for (auto& stage : p.stages) stage = {from(1, 9), from(1, 9), from(1, 9)};
    for (std::int32_t s = 0; s + 1 < shape.stages; ++s) {
      const bool within = shape.rank_of(Stage{s}) == shape.rank_of(Stage{s + 1});
      p.forward_ns[at(s)] = p.backward_ns[at(s) + 1] = within ? 0 : from(0, 3);
    }
    const std::int64_t chunks = shape.stages / shape.ranks;
    for (auto& room : p.room) room = from(chunks, chunks * shape.microbatches);
    return p;
  }

 private:
  std::mt19937_64 random_;
};

// All orders of one rank: each stage's F, I and W in order of micro-batches, F before I before W.
template <class Visit>
void every_word(const SynthesisProblem& p, Rank rank, std::vector<Action>& word, Visit visit) {
  const auto stages = p.stages_of(rank);
  if (word.size() == stages.size() * 3 * at(p.shape.microbatches)) return visit(word);
  for (const Stage stage : stages) {
    std::int32_t done[3] = {0, 0, 0};
    for (const Action& a : word) {
      if (a.stage != stage) continue;
      ++done[a.kind == ActionKind::F ? 0 : a.kind == ActionKind::I ? 1 : 2];
    }
    constexpr ActionKind kKinds[] = {ActionKind::F, ActionKind::I, ActionKind::W};
    for (int kind = 0; kind < 3; ++kind) {
      if (done[kind] == (kind == 0 ? p.shape.microbatches : done[kind - 1])) continue;
      word.push_back({stage, kKinds[kind], Microbatch{done[kind]}});
      every_word(p, rank, word, visit);
      word.pop_back();
    }
  }
}

std::int64_t brute_force(const SynthesisProblem& p) {
  std::vector<std::vector<std::vector<Action>>> of_rank(at(p.shape.ranks));
  for (std::int32_t r = 0; r < p.shape.ranks; ++r) {
    std::vector<Action> word;
    every_word(p, Rank{r}, word, [&](const auto& whole) { of_rank[at(r)].push_back(whole); });
  }
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  std::vector<std::size_t> pick(of_rank.size(), 0);
  for (bool more = true; more;) {
    Words words(p.shape.ranks);
    for (std::size_t r = 0; r < pick.size(); ++r)
      words[Rank{static_cast<std::int32_t>(r)}] = of_rank[r][pick[r]];
    if (within_room(p, words)) {
      if (const auto times = time_words(p, words)) best = std::min(best, times->makespan_ns);
    }
    more = false;
    for (std::size_t r = 0; r < pick.size() && !more; ++r) {
      more = ++pick[r] < of_rank[r].size();
      if (!more) pick[r] = 0;
    }
  }
  return best;
}

void expect_the_best(const SynthesisProblem& p) {
  const auto found = synthesise(p);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->makespan_ns, brute_force(p));
  EXPECT_TRUE(found->optimal());
  EXPECT_LE(synthesis_bound_ns(p), found->makespan_ns);
  EXPECT_TRUE(within_room(p, found->schedule.order));
  EXPECT_EQ(validate(found->schedule), std::nullopt);
}

TEST(Synthesis, EqualsBruteForce) {
  Draw draw(41);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE("seed 41, trial " + std::to_string(trial));
    // 42^2, 5^3 and 5^4 orders.
    constexpr std::pair<int, int> kSizes[] = {{2, 3}, {3, 2}, {4, 2}};
    const auto [ranks, microbatches] = kSizes[trial % 3];
    expect_the_best(draw.problem(looped_shape(ranks, 1, microbatches)));
  }
}

TEST(Synthesis, InAVEqualsBruteForce) {
  Draw draw(42);
  for (int trial = 0; trial < 12; ++trial) {
    SCOPED_TRACE("seed 42, trial " + std::to_string(trial));
    expect_the_best(draw.problem(v_shape(1, 2)));
    expect_the_best(draw.problem(v_shape(2, 1)));
    expect_the_best(draw.problem(looped_shape(2, 2, 1)));
  }
}

// The catalogue's schedules that keep to the room, timed as this is.
TEST(Synthesis, IsNeverWorseThanTheCatalogue) {
  Draw draw(43);
  int compared = 0;
  for (int trial = 0; trial < 6; ++trial) {
    const bool v = trial % 2 == 1;
    const SynthesisProblem p = draw.problem(v ? v_shape(4, 12) : looped_shape(4, 1, 12));
    const auto found = synthesise(p, {.nodes = 1000, .swapped = 200'000});
    ASSERT_TRUE(found);
    EXPECT_LE(found->lower_bound_ns, found->makespan_ns);
    for (const Generator& generator : generators()) {
      const auto made = generator.make({4, v ? 2 : 1, 12});
      const auto* schedule = std::get_if<Schedule>(&made);
      if (schedule == nullptr || schedule->shape != p.shape) continue;
      if (!within_room(p, schedule->order)) continue;
      const auto times = time_words(p, schedule->order);
      if (!times) continue;
      ++compared;
      EXPECT_LE(found->makespan_ns, times->makespan_ns) << generator.name;
    }
  }
  EXPECT_GT(compared, 5);
}

// The most stages times micro-batches that the exact search is asked about. Room for at least what
// 1F1B keeps.
TEST(Synthesis, FourUnlikeStagesAndEightMicrobatchesAreBestOrNearly) {
  Draw draw(45);
  for (int trial = 0; trial < 8; ++trial) {
    SynthesisProblem p = draw.problem(looped_shape(4, 1, 8));
    for (auto& room : p.room) room = std::max<std::int64_t>(room, 4);
    const auto found = synthesise(p);
    ASSERT_TRUE(found);
    EXPECT_EQ(validate(found->schedule), std::nullopt);
    EXPECT_TRUE(found->optimal() || found->gap() <= 0.01)
        << "trial " << trial << ": " << found->gap();
  }
}

// More room never makes the best step longer, though it may a greedy rule's (theory.md 3.4).
TEST(Synthesis, OptimumIsMonotoneInTheRoom) {
  Draw draw(44);
  for (int trial = 0; trial < 25; ++trial) {
    SynthesisProblem p = draw.problem(looped_shape(3, 1, 4));
    std::int64_t before = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t room = 1; room <= 4; ++room) {
      p.room.assign(3, room);
      const auto found = synthesise(p);
      ASSERT_TRUE(found && found->optimal()) << "seed 44, trial " << trial << ", room " << room;
      EXPECT_LE(found->makespan_ns, before);
      before = found->makespan_ns;
    }
  }
}

// ZB-H1's step at equal stages, M (F+I+W) + (K-1) F, is the bound with the room of 1F1B: 6 x 3 + 3.
TEST(Synthesis, MeetsTheBoundOfEqualStages) {
  const SynthesisProblem p = equal_stages(looped_shape(4, 1, 6), {1, 1, 1}, 4);
  const auto found = synthesise(p);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->makespan_ns, 21);
  EXPECT_TRUE(found->optimal());
}

// Room for one micro-batch on two stages of 1: each goes down and back before the next, F F I I W,
// and the first stage's W before its next F: 4 a micro-batch and its W.
TEST(Synthesis, RoomForOneMicrobatchIsATurnEach) {
  const SynthesisProblem p = equal_stages(looped_shape(2, 1, 5), {1, 1, 1}, 1);
  EXPECT_EQ(synthesis_bound_ns(p), 25);
  const auto found = synthesise(p);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->makespan_ns, 25);
  EXPECT_FALSE(synthesise(equal_stages(looped_shape(2, 1, 5), {1, 1, 1}, 0)));
}

// Eight ranks with room for four, F = I = W = 10, M = 64. Of every four micro-batches two are
// looked at, 32 of them, which meet 31 times. Down and back takes 16 actions, so one that begins
// when another has left meets its neighbours at borders whose sum is 8 at best, 9 actions apart
// where it would be 8.5: 9 at the first meeting, 30 times 9, 8 until the last one is back, two
// others' I behind it and its W.
TEST(Synthesis, MicrobatchesThatMeetWaitForEachOther) {
  EXPECT_EQ(synthesis_bound_ns(equal_stages(looped_shape(8, 1, 64), {10, 10, 10}, 4)),
            10 * (9 + 30 * 9 + 8 + 2 + 1));
}

TEST(Synthesis, NoBoundIsAboveTheOptimum) {
  Draw draw(46);
  int finished = 0;
  for (int trial = 0; trial < 40; ++trial) {
    constexpr std::pair<int, int> kSizes[] = {{2, 6}, {3, 5}, {3, 7}, {4, 5}};
    const auto [ranks, microbatches] = kSizes[trial % 4];
    SynthesisProblem p = draw.problem(looped_shape(ranks, 1, microbatches));
    if (trial % 2 == 0) p.stages.assign(p.stages.size(), {1, 1, 1});
    for (auto& room : p.room) room = draw.from(2, 3);
    const auto exact = exact_words(p, std::numeric_limits<std::int64_t>::max(), 60'000);
    if (!exact.finished) continue;
    ++finished;
    EXPECT_LE(synthesis_bound_ns(p), exact.makespan_ns) << "seed 46, trial " << trial;
  }
  EXPECT_GT(finished, 20);
}

// Tiling repeats the middle of 1F1B with its backward split: K = 2, M = 4 to M = 9.
TEST(Synthesis, TilesASteadyPart) {
  const SynthesisProblem many = equal_stages(looped_shape(2, 1, 9), {1, 1, 1}, 2);
  SynthesisProblem few = many;
  few.shape.microbatches = 4;
  const auto h1 = std::get<Schedule>(make_schedule("zb-h1", {2, 1, 4}));
  const auto words = tiled_words(many, h1.order, 4, 1, 1);
  ASSERT_TRUE(words);
  EXPECT_EQ(*words, std::get<Schedule>(make_schedule("zb-h1", {2, 1, 9})).order);
}

// Equal stages, 32 micro-batches on 8 ranks: 1F1B's memory is enough for the bound; with less in
// one stage a rank the bound is not met, and the result says by how much.
TEST(Synthesis, SaysItsGapOnLargeProblems) {
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  for (const auto& [room, gap] : {std::pair(4, 0.13), std::pair(5, 0.09), std::pair(8, 0.0)}) {
    const SynthesisProblem p = equal_stages(looped_shape(8, 1, 32), {10, 10, 10}, room);
    const auto found = synthesise(p, {.nodes = 1000, .swapped = 2'000'000});
    ASSERT_TRUE(found);
    EXPECT_EQ(validate(found->schedule), std::nullopt);
    EXPECT_LE(found->gap(), gap) << "room " << room;
    EXPECT_LE(found->makespan_ns, before);
    before = found->makespan_ns;
  }
}

// Eight ranks, 64 micro-batches, half, two thirds and all of what 1F1B keeps on its first rank.
TEST(Synthesis, IsWithinThreePercentUnderACapOfMemory) {
  for (const std::int64_t room : {4, 5, 8}) {
    const SynthesisProblem p = equal_stages(looped_shape(8, 1, 64), {10, 10, 10}, room);
    const auto found = synthesise(p, {.nodes = 1000, .swapped = 2'000'000});
    ASSERT_TRUE(found);
    EXPECT_EQ(validate(found->schedule), std::nullopt);
    EXPECT_TRUE(within_room(p, found->schedule.order));
    EXPECT_LE(found->gap(), 0.03) << "room " << room;
  }
}

// Messages of two thousandths of an action leave no pace that fits exactly; who comes a little late
// waits a little.
TEST(Synthesis, ShortMessagesCostLittle) {
  for (const std::int64_t room : {4, 5}) {
    SynthesisProblem p = equal_stages(looped_shape(8, 1, 64), {10'000, 10'000, 10'000}, room);
    p.forward_ns.assign(p.forward_ns.size(), 20);
    p.backward_ns.assign(p.backward_ns.size(), 20);
    const auto found = synthesise(p, {.nodes = 1000, .swapped = 2'000'000});
    ASSERT_TRUE(found);
    EXPECT_TRUE(within_room(p, found->schedule.order));
    EXPECT_LE(found->gap(), 0.03) << "room " << room;
  }
}

// K = 2 with room for two of many, F = I = W = 1. Down and back takes 4 and W one, so 5 a period at
// least, and two micro-batches' 6 on each rank: with 6, the second may begin 2 after the first, F
// at 0 and 2 and I at 3 and 5 on the first rank, W in the two places left.
TEST(Synthesis, APaceLeavesNobodyWaiting) {
  const SynthesisProblem p = equal_stages(looped_shape(2, 1, 5), {1, 1, 1}, 2);
  const auto paces = paces_of(p);
  ASSERT_FALSE(paces.empty());
  EXPECT_EQ(paces.front(), (std::vector<std::int64_t>{0, 2, 6, 8, 12}));
  EXPECT_TRUE(paces_of(equal_stages(looped_shape(2, 1, 5), {1, 1, 1}, 5)).empty());
}

}  // namespace
}  // namespace weir::synthesis_test
