// A U-Net whose skips go directly trains to the bits of one device, as one that relays them does,
// and takes the memory that is forecast.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/memory/memory.hpp"
#include "exec/rank/interpreter.hpp"
#include "exec/streams/step_launcher.hpp"
#include "exec/training/trainable.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/tiny_cnn.hpp"

namespace weir::training_direct_skips_test {
namespace {

using testing::HasSubstr;

// Four levels of one convolution on 16 x 16 images: four skips, the outer one across eight layers.
// Layers: four encoders, the bottleneck, four decoders, the head.
TinyConfig deep_unet() {
  return {R"({"schema":"weir.cnn/1","network":"unet","layers":"blocks","depth":4,"convolutions":1,)"
          R"("channels":2,"image":16,"output_channels":3})",
          0};
}

RunResult train(const TinyModel& model, const Plan& plan,
                const std::optional<std::filesystem::path>& evaluate = {}) {
  RunOptions options;
  options.steps = 2;
  options.warmup_steps = 0;
  options.evaluate = evaluate;
  return run(model.load(plan), options, cpu_only());
}

std::vector<double> losses(const RunResult& result) {
  std::vector<double> all;
  for (const StepResult& step : result.steps) all.push_back(step.loss);
  return all;
}

// Bytes of a sample.
std::int64_t largest_message(const StagePart& stage) {
  std::int64_t most = std::max(stage.message_bytes({{}, ActionKind::RECV_F}),
                               stage.message_bytes({{}, ActionKind::SEND_F}));
  for (const StageSkip& skip : stage.skips_in) most = std::max(most, skip.bytes);
  for (const StageSkip& skip : stage.skips_out) most = std::max(most, skip.bytes);
  return most;
}

Plan direct(Plan plan) {
  plan.skips = SkipTransport::direct;
  return plan;
}

// What a stage takes of several, and sends to several, stands as in its row: the nearest stage's
// first. Stage 4 of [e0][e1][e2][e3 b d3][d2 d1 d0 classes] takes s2 of stage 2, s1 of stage 1 and
// s0 of stage 0; s3 stays inside.
TEST(TrainingDirectSkips, AreRoutedAsTheirRowHasThem) {
  const TinyModel model(deep_unet());
  const ResolvedPlan loaded = model.load(direct(model.plan({1, 2, 3, 6}, 1)));
  const std::vector<MessageRoute> routes = route_messages(loaded.program);
  int taken = 0;
  for (const OperationId id : loaded.program.ids()) {
    const Action& action = loaded.program.op(id).action;
    if (action.stage != Stage{4} || action.kind != ActionKind::F) continue;
    const auto& skips = routes[id.position()].receive_skips;
    ASSERT_EQ(skips.size(), 3U);
    for (const auto& skip : skips) {
      const Edge& edge = loaded.program.edge(EdgeId{skip.edge});
      EXPECT_EQ(edge.from, Rank{2 - taken++});
      EXPECT_EQ(edge.to, Rank{4});
    }
  }
  EXPECT_EQ(taken, 3);
}

// The two-level U-Net's six layers on two stages to six. Of {3} and of {1, 5} every skip goes to
// the next stage. Each schedule, each re-materialisation.
TEST(TrainingDirectSkips, ParametersAreThoseOfOneDevice) {
  const TinyModel model(tiny_unet());
  const RunResult alone = train(model, model.plan({}, 4, "gpipe"));
  int passed_by = 0;
  for (const std::vector<int>& boundaries : std::vector<std::vector<int>>{
           {3}, {1, 2}, {2, 4}, {1, 5}, {2, 3}, {1, 3, 4}, {1, 2, 4}, {1, 2, 3, 4, 5}}) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
      for (const char* words : kModes) {
        Plan plan = direct(model.plan(boundaries, 4, schedule));
        plan.recompute = mode(words);
        passed_by += model.load(plan).lowering.skips.empty() ? 0 : 1;
        const RunResult result = train(model, plan);
        EXPECT_EQ(result.parameters_sha256, alone.parameters_sha256)
            << "K" << plan.pp << " " << schedule << " " << words;
        EXPECT_EQ(losses(result), losses(alone));
      }
    }
  }
  // Of six of the eight boundaries, for each schedule and each re-materialisation.
  EXPECT_EQ(passed_by, 6 * 3 * static_cast<int>(std::size(kModes)));
}

// As many stages as there are layers, and stages of two and three layers: of stages that make two
// skips for two others, that take two from two, and that take one among others that stay inside.
// One, three and eight micro-batches, one slot an edge or any number.
TEST(TrainingDirectSkips, OfManyLevelsAreThoseOfARelay) {
  const TinyModel model(deep_unet());
  for (const int microbatches : {1, 3, 8}) {
    const RunResult alone = train(model, model.plan({}, microbatches, "gpipe"));
    for (const std::vector<int>& boundaries : std::vector<std::vector<int>>{
             {1, 2, 3, 4, 5, 6, 7, 8, 9}, {2, 4, 5, 7, 8}, {2, 5, 8}, {3, 4, 5, 6}, {1, 4, 6}}) {
      for (const int slots : {1, 0}) {
        Plan plan = model.plan(boundaries, microbatches, "gpipe");
        plan.slots = slots;
        const RunResult relayed = train(model, plan), sent = train(model, direct(plan));
        EXPECT_EQ(relayed.parameters_sha256, alone.parameters_sha256);
        EXPECT_EQ(sent.parameters_sha256, alone.parameters_sha256)
            << "K" << plan.pp << " M" << microbatches << " slots " << slots;
        EXPECT_EQ(losses(sent), losses(alone));
      }
    }
  }
}

// Seven samples in micro-batches of two and of one: messages have room for the largest.
TEST(TrainingDirectSkips, OfUnequalMicrobatches) {
  const TinyModel model(tiny_unet());
  Plan one = model.plan({}, 4, "gpipe");
  one.samples = 7;
  Plan plan = direct(model.plan({1, 2, 4}, 4));
  plan.samples = 7;
  EXPECT_EQ(train(model, plan).parameters_sha256, train(model, one).parameters_sha256);
}

// An evaluation runs the same messages: forwards, and zeros back. A file of eight samples, a
// mini-batch: 64 labels below 3 and 3 x 64 numbers, a byte each.
TEST(TrainingDirectSkips, AreEvaluated) {
  const TinyModel model(tiny_unet());
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("weir-direct-skips-" + std::to_string(::getpid()) + ".bin");
  std::string records;
  for (int i = 0; i < 8 * 4 * 64; ++i)
    records += static_cast<char>(i % 256 < 64 ? i % 3 : i * 37 % 251);
  write_file_atomically(file, records);
  const RunResult alone = train(model, model.plan({}, 4, "gpipe"), file);
  const RunResult sent = train(model, direct(model.plan({1, 2, 3, 4}, 4)), file);
  std::filesystem::remove(file);
  ASSERT_TRUE(alone.evaluation && sent.evaluation);
  EXPECT_EQ(sent.evaluation->loss, alone.evaluation->loss);
  EXPECT_EQ(sent.parameters_sha256, alone.parameters_sha256);
}

// One micro-batch leaves nothing to timing: a message that a rank awaits comes while it rests. Each
// peak is the arena's to the byte, the rows and messages that a stage copies between among it.
TEST(TrainingDirectSkips, TakeTheMemoryThatIsForecast) {
  const TinyModel model(deep_unet());
  for (const std::vector<int>& boundaries : std::vector<std::vector<int>>{
           {}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {2, 4, 5, 7, 8}, {3, 4, 5, 6}, {1, 4, 6}}) {
    for (const char* schedule : {"gpipe", "zb-h1"}) {
      for (const char* words : kModes) {
        Plan plan = direct(model.plan(boundaries, 1, schedule));
        plan.recompute = mode(words);
        const ResolvedPlan loaded = model.load(plan);
        const RunResult result = run(loaded, {}, cpu_only());
        const std::span<const Span> spans(result.trace.spans.data(), loaded.program.size());
        const auto peaks = memory_peaks(loaded, loaded.program, spans, result.scratch);
        for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
          EXPECT_EQ(peaks[rank].peak, result.peak_memory[rank])
              << "K" << plan.pp << " " << schedule << " " << words << " rank " << rank;
        }
      }
    }
  }
}

// Of several, a message may come a moment before or after another tensor goes: most ranks' peaks
// are the arena's to the byte, the others within two messages, for which an edge has slots.
TEST(TrainingDirectSkips, TakeTheMemoryThatIsForecastInFlight) {
  const TinyModel model(tiny_unet());
  RunOptions one_step;  // the one whose times the forecast is given
  one_step.steps = 1;
  one_step.warmup_steps = 0;
  int exact = 0, not_exact = 0;
  for (const std::vector<int>& boundaries :
       std::vector<std::vector<int>>{{1, 2, 3, 4}, {1, 2, 4}, {2, 3}}) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
      for (const char* words : kModes) {
        Plan plan = direct(model.plan(boundaries, 6, schedule));
        plan.recompute = mode(words);
        const ResolvedPlan loaded = model.load(plan);
        const RunResult result = run(loaded, one_step, cpu_only());
        const std::span<const Span> spans(result.trace.spans.data(), loaded.program.size());
        const auto peaks = memory_peaks(loaded, loaded.program, spans, result.scratch);
        for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
          const StagePart& stage = loaded.stages[rank];
          const std::int64_t messages = 2 * plan.micro_batch_size * largest_message(stage);
          const std::int64_t apart = peaks[rank].peak.count() - result.peak_memory[rank].count();
          EXPECT_LE(std::abs(apart), messages)
              << "K" << plan.pp << " " << schedule << " " << words << " rank " << rank;
          ++(apart == 0 ? exact : not_exact);
        }
      }
    }
  }
  EXPECT_GT(exact, not_exact);
}

// Nor are they launched on streams.
TEST(TrainingDirectSkips, AreRefusedOnAGpu) {
  const TinyModel model(tiny_unet());
  const ResolvedPlan loaded = model.load(direct(model.plan({1, 2, 4}, 2)));
  const std::vector<MessageRoute> routes = route_messages(loaded.program);
  EXPECT_THROW(StepLauncher(loaded.program, routes, {}, [] { return std::int64_t{0}; }),
               MissingComponent);
  EXPECT_NO_THROW(require_trainable(loaded, Replicas::one, BackendKind::cpu));
  try {
    require_trainable(loaded, Replicas::one, BackendKind::cuda);
    FAIL();
  } catch (const MissingComponent& refused) {
    EXPECT_THAT(refused.what(), HasSubstr("skips: direct"));
  }
}

}  // namespace
}  // namespace weir::training_direct_skips_test
