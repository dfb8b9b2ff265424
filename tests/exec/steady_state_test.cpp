// After the first step a run takes nothing more from the machine.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "exec/cpu/cpu_backend.hpp"
#include "exec/run/run.hpp"
#include "tests/exec/tiny.hpp"

namespace weir::steady_state_test {
namespace {

// Every block of a step is on a free list when it ends; the next step asks for the same sizes in
// the same order on each rank, and what a rank gives away as a message it gets back as a gradient
// of the same size.
TEST(SteadyState, TakesNoMoreBlocks) {
  const TinyModel model;
  for (const std::vector<int>& boundaries : std::vector<std::vector<int>>{{}, {3}}) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
      RunOptions options;
      options.steps = 4;
      options.warmup_steps = 0;
      const RunResult result = run(model.load(model.plan(boundaries, 4, schedule)), options,
                                   {{BackendKind::cpu, make_cpu_backend}});
      EXPECT_GT(result.steps[0].allocations, 0) << schedule;
      for (std::size_t step = 2; step < 4; ++step)
        EXPECT_EQ(result.steps[step].allocations, 0) << schedule;
    }
  }
}

// Two ranks on device 0, which has 1000 bytes in use: 300 + 200 are their pools', 500 somebody
// else's. Device 1 has one rank: 50 of 80 are its pool's.
TEST(OutsideThePools, IsWhatNoPoolHolds) {
  std::vector<DeviceUse> ranks(3);
  ranks[0] = {.device = 0, .pool_reserved = Bytes(300), .device_used = Bytes(1000)};
  ranks[1] = {.device = 0, .pool_reserved = Bytes(200), .device_used = Bytes(1000)};
  ranks[2] = {.device = 1, .pool_reserved = Bytes(50), .device_used = Bytes(80)};
  EXPECT_EQ(outside_the_pools(ranks), (std::vector<Bytes>{Bytes(500), Bytes(30)}));
  EXPECT_TRUE(outside_the_pools({}).empty());
}

}  // namespace
}  // namespace weir::steady_state_test
