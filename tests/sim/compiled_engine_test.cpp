// The compiled engine against the event engine: the same integers, whatever the schedule, the costs
// and the slots. Seeds are fixed and printed with a failure.
// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/compiled_engine.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "plan/program/blocking.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "sim/engine/event_engine.hpp"

namespace weir::compiled_engine_test {
namespace {

constexpr unsigned kSeed = 20261121;

class Random {
 public:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  CostTable table(const ScheduleShape& shape, bool equal) {
    const auto stages = static_cast<std::size_t>(shape.total_stages());
    CostTable table;
    const int most = pick(1, 4) == 1 ? 3 : 1000;  // small numbers make ties
    const auto draw = [&] { return Nanoseconds(pick(0, most)); };
    const MessageCost message{draw(), draw()};
    const auto stage = [&] {
      StageCost cost{{draw(), draw(), draw(), draw(), draw(), draw()}, draw()};
      cost.rebuild = std::min({draw(), cost.i, cost.b});
      return cost;
    };
    const StageCost same = stage();
    for (std::size_t s = 0; s < stages; ++s) {
      table.stages.push_back(equal ? same : stage());
      table.forward_messages.push_back(equal ? message : MessageCost{draw(), draw()});
      table.backward_messages.push_back(equal ? message : MessageCost{draw(), draw()});
    }
    if (pick(0, 2) == 0) table.host_overhead = draw();
    return table;
  }
  // Any schedule that exists, lowered somehow; nullopt where this draw does not exist or would
  // deadlock.
  std::optional<Program> program(const Generator& generator) {
    const int k = pick(1, 7), v = pick(1, 3), m = pick(1, 40);
    const bool in_slices = generator.default_slices > 1;  // v of them, then
    const auto made = in_slices ? make_schedule(generator.name, {k, 1, m, v})
                                : make_schedule(generator.name, {k, v, m});
    if (std::holds_alternative<std::string>(made)) return std::nullopt;
    const Schedule& schedule = std::get<Schedule>(made);
    LoweringOptions options;
    options.slots = pick(0, 2) == 0 ? 0 : fewest_slots(schedule, pick(1, 4));
    options.optimizer = pick(0, 1) == 1;
    if (pick(0, 1) == 1) {
      for (int s = 0; s < schedule.shape.total_stages(); ++s)
        options.recompute.push_back(pick(0, 1) == 1);
      options.keep_last_microbatch = pick(0, 1) == 1;
      if (pick(0, 1) == 1) options.placement = RecomputePlacement::fused;
    }
    if (schedule.shape.stages > 1 && pick(0, 3) == 0)
      options.tied.push_back({Stage{0}, Stage{schedule.shape.stages - 1}});
    const Program program = lower(schedule, options);
    return options.slots == 0 ? block_transfers(program, static_cast<TransferMode>(pick(0, 2)))
                              : program;
  }

 private:
  std::mt19937 random_{kSeed};
};

std::int64_t by_events(const Program& program, const CostTable& table) {
  return std::get<Timing>(simulate(program, expand(program, table))).makespan.count();
}

// 700 draws of each schedule, two cost tables each, alone and in a batch of five, jumping and
// walking.
TEST(CompiledEngine, EqualsTheEventEngineOnRandomPrograms) {
  Random random;
  int cases = 0, jumps = 0;
  for (const Generator& generator : generators()) {
    int found = 0;
    for (int draw = 0; draw < 20'000 && found < 700; ++draw) {
      const auto program = random.program(generator);
      if (!program) continue;
      const auto compiled = compile(*program);
      if (std::holds_alternative<Stuck>(
              simulate(*program, expand(*program, random.table(program->shape(), true))))) {
        ASSERT_TRUE(std::holds_alternative<NotCompiled>(compiled))
            << generator.name;  // blocked transfers that cross
        continue;
      }
      ASSERT_TRUE(std::holds_alternative<CompiledProgram>(compiled)) << generator.name;
      const CompiledProgram& code = std::get<CompiledProgram>(compiled);
      jumps += static_cast<int>(code.repeats.size());
      ++found;
      CompiledEngine jump(code), walk(code, Periodicity::walk);
      std::vector<CostTable> tables;
      std::vector<Nanoseconds> expected;
      for (int t = 0; t < 5; ++t) {
        tables.push_back(random.table(program->shape(), t % 2 == 0));
        expected.push_back(Nanoseconds(by_events(*program, tables.back())));
      }
      for (int t = 0; t < 2; ++t, ++cases) {
        ASSERT_EQ(jump.makespan(tables[static_cast<std::size_t>(t)]),
                  expected[static_cast<std::size_t>(t)])
            << generator.name << ", seed " << kSeed << ", case " << cases;
        ASSERT_EQ(walk.makespan(tables[static_cast<std::size_t>(t)]),
                  expected[static_cast<std::size_t>(t)])
            << generator.name << ", seed " << kSeed << ", case " << cases;
      }
      std::vector<Nanoseconds> batch(tables.size());
      jump.makespans(tables, batch);
      ASSERT_EQ(batch, expected) << generator.name << ", seed " << kSeed << ", case " << cases;
      walk.makespans(tables, batch);
      ASSERT_EQ(batch, expected) << generator.name << ", seed " << kSeed << ", case " << cases;
    }
    EXPECT_GE(found, 150) << generator.name;
  }
  EXPECT_GE(cases, 10'000);
  EXPECT_GT(jumps, 1'000);
  RecordProperty("cases", cases);
}

// Equal stages, 1F1B: the steady state repeats from the first round on, so M = 100,000 costs little
// more than M = 100. (M + K - 1)(F + B).
TEST(CompiledEngine, JumpsOverManyRounds) {
  const Schedule schedule = std::get<Schedule>(make_schedule("1f1b", {4, 1, 20'000}));
  LoweringOptions options;
  options.optimizer = false;
  const Program program = lower(schedule, options);
  const auto code = std::get<CompiledProgram>(compile(program));
  ASSERT_FALSE(code.repeats.empty());
  std::size_t repeated = 0;
  for (const Repeat& repeat : code.repeats) repeated += repeat.length * repeat.count;
  EXPECT_GT(static_cast<double>(repeated), 0.99 * static_cast<double>(code.code.size()));
  CostTable table;
  table.stages.assign(4, {{.f = Nanoseconds(3), .b = Nanoseconds(5)}});
  table.forward_messages.assign(4, {});
  table.backward_messages.assign(4, {});
  EXPECT_EQ(CompiledEngine(code).makespan(table).count(), (20'000 + 3) * 8);
}

// Whatever the schedule, what is kept in flight takes the registers of a lane's ring in turn, so
// that a round is written as the one before: of 256 micro-batches on 8 ranks at least seven tenths
// of the instructions are rounds (76 % of hanayo's, whose rounds begin late; 85 % and more of all
// others'). `looped-bfs` has none: the first rank takes a chunk's M inputs only when it has made
// the M of the chunk before, and each lies in a register of its own until then.
TEST(CompiledEngine, FindsTheRoundsOfEverySchedule) {
  for (const Generator& generator : generators()) {
    const auto made =
        make_schedule(generator.name, {8, generator.default_chunks, 256, generator.default_slices});
    ASSERT_TRUE(std::holds_alternative<Schedule>(made)) << generator.name;
    const Schedule& schedule = std::get<Schedule>(made);
    const auto code =
        std::get<CompiledProgram>(compile(lower(schedule, {.slots = fewest_slots(schedule, 2)})));
    std::size_t repeated = 0;
    for (const Repeat& repeat : code.repeats) repeated += repeat.length * repeat.count;
    const double share = static_cast<double>(repeated) / static_cast<double>(code.code.size());
    if (generator.name == "looped-bfs") {
      EXPECT_EQ(share, 0);
    } else {
      EXPECT_GT(share, 0.7) << generator.name;
    }
  }
}

TEST(CompiledEngine, RefusesWhatDeadlocks) {
  const Schedule needs_two = parse_schedule_csv("0F0,0F1,0B0,0B1\n1F1,1F0,1B0,1B1\n", "two.csv");
  LoweringOptions one;
  one.slots = 1;
  EXPECT_TRUE(std::holds_alternative<NotCompiled>(compile(lower(needs_two, one))));
}

// At most 24 bytes an action, whatever the schedule (an action: any operation of the program).
TEST(CompiledEngine, IsSmall) {
  for (const Generator& generator : generators()) {
    const auto made =
        make_schedule(generator.name, {8, generator.default_chunks, 64, generator.default_slices});
    ASSERT_TRUE(std::holds_alternative<Schedule>(made)) << generator.name;
    const Program program =
        lower(std::get<Schedule>(made), {.slots = fewest_slots(std::get<Schedule>(made), 2)});
    const auto code = std::get<CompiledProgram>(compile(program));
    EXPECT_LE(static_cast<double>(code.bytes()) / static_cast<double>(program.size()), 24)
        << generator.name;
  }
}

}  // namespace
}  // namespace weir::compiled_engine_test
