// Networks whose maps skip layers, a U-Net and an AmoebaNet, train to the same bits wherever their
// skips cross stages.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/exec/tiny_cnn.hpp"

namespace weir::training_skips_test {
namespace {

TEST(TrainingUNet, SkipsAcrossStagesAreBitwiseThoseOfOneDevice) {
  expect_bits_of_one_device(TinyModel(tiny_unet()), {{1}, {3}, {2, 4}, {1, 3, 4}, {1, 2, 3, 4, 5}},
                            {"gpipe", "1f1b", "zb-h1"});
}

TEST(TrainingAmoebaNet, ParametersAreBitwiseEqualForEveryPipeline) {
  const TinyModel model(tiny_amoebanet());
  const std::string expected = hash_of(model, model.plan({}, 4, "gpipe"));
  const struct {
    const char* schedule;
    int vpp;
    std::vector<int> boundaries;
  } cases[] = {{"gpipe", 1, {4}},
               {"1f1b", 1, {3, 6}},
               {"zb-h1", 1, {2, 7}},
               {"1f1b", 1, {1, 2, 3, 4, 5, 6, 7, 8, 9}},
               {"interleaved-1f1b", 2, {2, 4, 6}},
               {"zb-v", 2, {1, 5, 8}}};
  for (const auto& c : cases) {
    for (const char* words : kModes) {
      Plan plan = model.plan(c.boundaries, 4, c.schedule);
      plan.pp = static_cast<int>(c.boundaries.size() + 1) / c.vpp;
      plan.vpp = c.vpp;
      plan.slots = c.vpp > 1 ? 0 : 2;
      plan.recompute = mode(words);
      EXPECT_EQ(hash_of(model, plan), expected) << c.schedule << " K" << plan.pp << " " << words;
    }
  }
}

// A class is a pattern under noise: from ln 3 = 1.10 down.
TEST(TrainingAmoebaNet, LearnsPatterns) {
  const TinyModel model(tiny_amoebanet());
  Plan plan = model.plan({4}, 2);
  plan.micro_batch_size = 16;
  plan.optimizer.learning_rate = 3e-3;
  RunOptions options;
  options.steps = 45;
  options.warmup_steps = 0;
  const RunResult result = run(model.load(plan), options, cpu_only());
  EXPECT_LT(result.steps.back().loss, 0.6 * result.steps.front().loss);
}

// A class is a colour under noise: from ln 3 = 1.10 down.
TEST(TrainingUNet, LearnsColours) {
  const TinyModel model(tiny_unet());
  Plan plan = model.plan({3}, 2);
  plan.micro_batch_size = 4;
  plan.optimizer.learning_rate = 1e-2;
  RunOptions options;
  options.steps = 60;
  options.warmup_steps = 0;
  const RunResult result = run(model.load(plan), options, cpu_only());
  EXPECT_LT(result.steps.back().loss, 0.7 * result.steps.front().loss);
}

}  // namespace
}  // namespace weir::training_skips_test
