// A residual network trains to the same bits whatever the pipeline, and its running statistics are
// those of the whole mini-batch.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/exec/tiny_cnn.hpp"

namespace weir::training_cells_test {
namespace {

// The running statistics are hashed with the weights: nothing is counted twice when a layer is
// rebuilt, and every order of micro-batches sums alike.
TEST(TrainingCells, ParametersAreBitwiseEqualForEveryPipeline) {
  expect_bits_of_one_device(TinyModel(tiny_resnet()), {{}, {1}, {3}, {2, 4}, {1, 2, 5}},
                            {"gpipe", "1f1b"});
}

TEST(TrainingCells, EverySchedulesParametersAreBitwiseEqual) {
  const TinyModel model(tiny_resnet(true));
  const std::string expected = hash_of(model, model.plan({}, 6, "gpipe"));
  const struct {
    const char* schedule;
    int vpp;
    std::vector<int> boundaries;
  } cases[] = {{"1f1b-eager", 1, {2, 4}},    {"zb-h1", 1, {2, 4}},
               {"zb-h2", 1, {1, 3}},         {"interleaved-1f1b", 2, {1, 3, 4}},
               {"looped-bfs", 2, {1, 2, 4}}, {"zb-v", 2, {1, 3, 4}},
               {"v-min", 2, {2, 3, 4}},      {"dualpipev", 2, {1, 3, 4}},
               {"zb-v", 2, {1, 2, 3, 4, 5}}};
  for (const auto& c : cases) {
    for (const char* words : {"never", "stage", "full"}) {
      Plan plan = model.plan(c.boundaries, 6, c.schedule);
      plan.pp = static_cast<int>(c.boundaries.size() + 1) / c.vpp;
      plan.vpp = c.vpp;
      plan.slots = 0;
      plan.recompute = mode(words);
      EXPECT_EQ(hash_of(model, plan), expected) << c.schedule << " " << words;
    }
  }
}

// Micro-batches of 3, 2 and 2 samples count by their size, and the statistics are no gradients: a
// norm of next to nothing clips what is learned and leaves them alone.
TEST(TrainingCells, UnequalMicroBatchesAndClippingAreBitwiseEqualToo) {
  const TinyModel model(tiny_resnet());
  const auto planned = [&](std::vector<int> boundaries, const char* schedule) {
    Plan plan = model.plan(std::move(boundaries), 3, schedule);
    plan.micro_batch_size = 3;
    plan.samples = 7;
    plan.optimizer.clip_norm = 1e-3;
    return plan;
  };
  const std::string expected = hash_of(model, planned({}, "gpipe"));
  EXPECT_EQ(hash_of(model, planned({2, 4}, "1f1b")), expected);
  EXPECT_EQ(hash_of(model, planned({3}, "zb-h1")), expected);
}

// Two steps, and two more on other stages, are four.
TEST(TrainingCells, ResumeWithAnotherPartition) {
  const TinyModel model(tiny_resnet());
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("weir-cells-run-" + std::to_string(::getpid()));
  RunOptions options;
  options.steps = 2;
  options.warmup_steps = 0;
  options.output = folder;
  options.checkpoint_every = 2;
  static_cast<void>(run(model.load(model.plan({3}, 4)), options, cpu_only()));
  options.checkpoint_every = 0;
  options.resume = folder;
  const RunResult resumed = run(model.load(model.plan({1, 4}, 4, "gpipe")), options, cpu_only());
  std::filesystem::remove_all(folder);
  EXPECT_EQ(resumed.parameters_sha256, hash_of(model, model.plan({}, 4), 4));
}

// The stem's norm sees each sample by itself, so its mini-batch is the same however it is cut: with
// weights that do not move (a learning rate of next to nothing), M = 4 and M = 1 leave the same
// running statistics, up to the rounding of sums of 4 x 128 numbers of order 1.
TEST(TrainingCells, RunningStatisticsDoNotDependOnMicroBatches) {
  const TinyModel model(tiny_resnet());
  const auto stem_statistics = [&](int microbatches) {
    Plan plan = unmoved(model.plan({}, microbatches));
    plan.micro_batch_size = 8 / microbatches;
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() /
        ("weir-cells-" + std::to_string(::getpid()) + ".safetensors");
    RunOptions options;
    options.steps = 2;
    options.warmup_steps = 0;
    options.save = file;
    static_cast<void>(run(model.load(plan), options, cpu_only()));
    auto saved = running_statistics(file);
    std::filesystem::remove(file);
    std::vector<float> values = saved.at("bn1.running_mean");
    const std::vector<float>& spread = saved.at("bn1.running_var");
    values.insert(values.end(), spread.begin(), spread.end());
    return values;
  };
  const std::vector<float> whole = stem_statistics(1), cut = stem_statistics(4);
  ASSERT_EQ(whole.size(), 8U);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(whole[i], cut[i], 1e-6) << i;
    EXPECT_NE(whole[i], i < 4 ? 0.0F : 1.0F);  // they have moved
  }
}

// Synthetic classes are patterns under noise: from ln 5 = 1.61 to next to nothing; the running
// statistics serve an evaluation.
TEST(TrainingCells, LearnsPatterns) {
  const TinyModel model(tiny_resnet());
  Plan plan = model.plan({2}, 2);
  plan.micro_batch_size = 16;
  plan.optimizer.learning_rate = 2e-2;
  RunOptions options;
  options.steps = 100;
  options.warmup_steps = 0;
  const RunResult result = run(model.load(plan), options, cpu_only());
  EXPECT_GT(result.steps.front().loss, 1.2);
  EXPECT_LT(result.steps.back().loss, 0.3);
}

}  // namespace
}  // namespace weir::training_cells_test
