// What candidates of one shape share equals what each would make alone, whichever thread asks first
// and whatever was forgotten in between.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/programs.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "plan/schedule/generators/generators.hpp"
#include "sim/parallel.hpp"

namespace weir::programs_test {
namespace {

Plan of_shape(const std::string& schedule, int k, int m) {
  Plan plan;
  plan.schedule = schedule;
  plan.pp = k;
  plan.microbatches = m;
  return plan;
}

TEST(Programs, AreThoseOfEachAlone) {
  Programs programs;
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "chimera"}) {
    const Plan plan = of_shape(name, 4, 8);
    auto shape = programs.of(plan);
    const auto schedule = std::get<Schedule>(make_schedule(name, {4, 1, 8}));
    EXPECT_EQ(shape->schedule(), schedule);
    for (const int slots : {1, 2, 3}) EXPECT_EQ(shape->slots(slots), fewest_slots(schedule, slots));
    // Each way to lower it is another program.
    std::set<const Program*> all;
    LoweringOptions options;
    const std::vector<bool> everywhere(static_cast<std::size_t>(schedule.shape.total_stages()),
                                       true);
    for (const bool reduce_all : {false, true}) {
      for (const auto& recompute : {std::vector<bool>{}, everywhere}) {
        options.reduce_all = reduce_all;
        options.recompute = recompute;
        const Program alone = lower(schedule, options);
        const Program& shared = shape->program(options);
        all.insert(&shared);
        ASSERT_EQ(shared.size(), alone.size());
        for (const OperationId id : alone.ids()) {
          EXPECT_EQ(shared.op(id).action, alone.op(id).action);
          ASSERT_EQ(shared.predecessors(id).size(), alone.predecessors(id).size());
        }
        const auto compiled = compile(alone);
        const auto* code = std::get_if<CompiledProgram>(&compiled);
        const CompiledProgram* shared_code = shape->compiled(options);
        ASSERT_EQ(shared_code == nullptr, code == nullptr);
        if (code != nullptr) {
          EXPECT_EQ(shared_code->code, code->code);
        }
      }
    }
    EXPECT_EQ(all.size(), 4U) << name;
  }
}

TEST(Programs, AreMadeOnceForAllThreads) {
  Programs programs;
  const Plan plan = of_shape("1f1b", 4, 64);
  std::vector<const void*> seen(32);
  in_parallel(seen.size(), [&](std::size_t i) { seen[i] = programs.of(plan)->compiled({}); });
  EXPECT_NE(seen.front(), nullptr);
  for (const void* one : seen) EXPECT_EQ(one, seen.front());
  EXPECT_EQ(programs.size(), 1U);
}

// Room for some: those asked for longest ago go, but what is held stays whole.
TEST(Programs, KeepToTheirBytes) {
  const auto fill = [](Programs& programs, int m) {
    auto shape = programs.of(of_shape("1f1b", 4, m));
    static_cast<void>(shape->compiled({}));
    return shape;
  };
  Programs alone;
  const std::size_t one = fill(alone, 64)->bytes();
  EXPECT_GT(one, 64U * 4 * 2 * sizeof(Operation));
  Programs programs(2 * one);
  const auto first = fill(programs, 20);
  const Program* program = &first->program({});
  for (int m = 21; m < 60; ++m) {
    static_cast<void>(fill(programs, m));
    // The newest came when there was room, and grew since.
    EXPECT_LE(programs.bytes(), 3 * one);
  }
  EXPECT_LT(programs.size(), 20U);
  EXPECT_NE(programs.of(of_shape("1f1b", 4, 20)), first);  // made again
  EXPECT_EQ(&first->program({}), program);
}

}  // namespace
}  // namespace weir::programs_test
