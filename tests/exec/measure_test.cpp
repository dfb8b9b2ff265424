// Profiling with all devices busy: every device stops at the same repetition, however threads are scheduled.
// SPDX-License-Identifier: Apache-2.0
#include "exec/measure.hpp"

#include <gtest/gtest.h>

#include "tests/exec/tiny.hpp"

namespace weir {
namespace {

// Four devices on whatever cores there are, and a spread that is reached after a random number of repetitions: whoever
// reads the decision late must still read the one for its own repetition, or the others wait for it for ever.
TEST(Measure, DevicesStopTogether) {
  const TinyModel model(true, 0.1, 32, 3);
  const Plan plan = model.plan({}, 1, "gpipe");
  MeasureOptions options;
  options.layers = {0, 1, 4};
  options.micro_batch_sizes = {1, 2, 3};
  options.devices = 4;
  options.least = 2;
  options.most = 12;
  options.spread = 0.2;
  for (int trial = 0; trial < 15; ++trial) {
    const Measurements measured = measure(model.load(plan).model, plan.seq_length, plan, options, cpu_only());
    ASSERT_EQ(measured.samples.size(), 9U);
    for (const LayerSample& sample : measured.samples) EXPECT_GT(sample.f.count(), 0);
  }
}

}  // namespace
}  // namespace weir
