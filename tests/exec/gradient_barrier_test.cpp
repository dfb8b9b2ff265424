// Who waits for whose gradients, when steps are counted anew.
// SPDX-License-Identifier: Apache-2.0
#include "exec/threads/gradient_barrier.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "tests/exec/tiny.hpp"

namespace weir::gradient_barrier_test {
namespace {

std::int64_t no_time() { return 0; }

// Two stages share the tied embedding: the first rank's optimizer waits for the gradients of both.
// Three steps of training are counted; the first step of an evaluation waits all the same.
TEST(GradientBarrier, StepsCountedAnewWaitForEachOther) {
  const TinyModel model;
  const ResolvedPlan loaded = model.load(model.plan({3}, 2, "1f1b"));
  const Program& program = loaded.program;
  const Stages none;
  GradientBarrier barrier({program, none, {}, {}, false, no_time});
  StepClock clock;
  clock.resize(program.size());
  OperationId optimizer = kNoOperation;
  std::vector<OperationId> last(2, kNoOperation);  // backward, by rank
  for (const Rank rank : program.ranks()) {
    for (const OperationId id : program.compute_lane(rank).operations()) {
      const ActionKind kind = program.op(id).action.kind;
      if (kind == ActionKind::B) last[rank.position()] = id;
      if (kind == ActionKind::OPTIMIZER && rank == Rank{0}) optimizer = id;
    }
  }
  const auto both_end = [&](std::uint32_t step) {
    for (const OperationId id : last) barrier.ended(id, step);
  };
  for (std::uint32_t step = 0; step < 3; ++step) both_end(step);
  barrier.restart();
  barrier.ended(last[0], 0);
  auto waits = std::async(std::launch::async, [&] { barrier.await(optimizer, 0, clock); });
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout)
      << "it passed by what training counted";
  barrier.ended(last[1], 0);
  waits.get();
}

}  // namespace
}  // namespace weir::gradient_barrier_test
