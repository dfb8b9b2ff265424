// Convolutional networks small enough to train in milliseconds, and what trainings of them are
// compared by.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "exec/weights/safetensors.hpp"
#include "tests/exec/tiny.hpp"

namespace weir {

// Two groups of blocks of 4 and 8 channels on 8 x 8 images: stem, two blocks, a third at half the
// size, the mean and the classifier.
inline TinyConfig tiny_resnet(bool bottleneck = false) {
  return {R"({"schema":"weir.cnn/1","network":"resnet","layers":"blocks","blocks":[2,1],)"
          R"("width":4,"image":8,"classes":5,"stem":"3x3","bottleneck":)" +
              std::string(bottleneck ? "true" : "false") + "}",
          0};
}

// Two levels of two convolutions on 8 x 8 images, three classes at each place: two skips, of which
// the outer one crosses four layers. Layers: two encoders, the bottleneck, two decoders, the head.
inline TinyConfig tiny_unet() {
  return {R"({"schema":"weir.cnn/1","network":"unet","layers":"blocks","depth":2,"convolutions":2,)"
          R"("channels":4,"image":8,"output_channels":3})",
          0};
}

// Three cells of 8 filters: stem, two reductions, a cell, a reduction, a cell, a reduction, a cell,
// the mean and the classifier; every cell but the first reads two layers.
inline TinyConfig tiny_amoebanet() {
  return {
      R"({"schema":"weir.cnn/1","network":"amoebanet-d","layers":"blocks","cells":3,"filters":8,)"
      R"("image":32,"classes":3})",
      0};
}

inline std::string hash_of(const TinyModel& model, const Plan& plan, int steps = 2) {
  RunOptions options;
  options.steps = steps;
  options.warmup_steps = 0;
  return run(model.load(plan), options, cpu_only()).parameters_sha256;
}

// Weights that do not move: all that changes is the running statistics, of the same values at every
// step.
inline Plan unmoved(Plan plan) {
  plan.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 1e-30, .momentum = 0};
  return plan;
}

// Running means and variances of saved weights.
inline std::map<std::string, std::vector<float>> running_statistics(
    const std::filesystem::path& file) {
  const SafetensorsFile saved(file);
  std::map<std::string, std::vector<float>> found;
  for (const auto& [name, tensor] : saved.tensors()) {
    if (name.find("running_") != std::string::npos) found[name] = to_floats(tensor, name);
  }
  return found;
}

inline Recompute mode(const std::string& words) {
  if (words == "never") return {};
  Recompute r = parse_recompute_word(words.substr(0, words.find(' '))).value();
  r.except_last = words.ends_with("except-last");
  return r;
}
inline constexpr const char* kModes[] = {"never", "stage", "stage except-last",
                                         "full",  "0,2,4", "full:2"};

// Four micro-batches, whatever the stages, the schedule and what is rebuilt: one device's bits.
inline void expect_bits_of_one_device(const TinyModel& model,
                                      const std::vector<std::vector<int>>& partitions,
                                      const std::vector<const char*>& schedules) {
  const std::string expected = hash_of(model, model.plan({}, 4, "gpipe"));
  for (const std::vector<int>& boundaries : partitions) {
    for (const char* schedule : schedules) {
      for (const char* words : kModes) {
        Plan plan = model.plan(boundaries, 4, schedule);
        plan.recompute = mode(words);
        EXPECT_EQ(hash_of(model, plan), expected)
            << "K" << plan.pp << " " << schedule << " " << words;
      }
    }
  }
}

}  // namespace weir
