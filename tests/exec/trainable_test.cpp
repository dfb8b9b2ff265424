// What has no kernels is refused by name before anything starts; what has them trains.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/trainable.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "exec/profiling/measure.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/tiny_cnn.hpp"

namespace weir::trainable_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

ResolvedPlan loaded(const TinyModel& tiny, const std::string& config) {
  const ResolvedPlan plan = tiny.load(tiny.plan({2}, 2));
  const auto file = std::filesystem::temp_directory_path() /
                    ("weir-trainable-" + std::to_string(::getpid()) + ".json");
  write_file_atomically(file, config);
  Model model = load_model(file);
  std::filesystem::remove(file);
  return derive(plan.plan, std::move(model), plan.schedule);
}

// 3 blocks, as the tiny GPT-2 of the plan has.
const char* const kLlama =
    R"({"model_type":"llama","hidden_size":16,"num_attention_heads":2,"num_hidden_layers":3,
  "intermediate_size":32,"max_position_embeddings":8,"vocab_size":32})";
const char* const kMixtral =
    R"({"model_type":"mixtral","hidden_size":16,"num_attention_heads":2,"num_key_value_heads":2,
  "num_hidden_layers":3,"intermediate_size":32,"max_position_embeddings":8,"vocab_size":32})";
const char* const kOpt =
    R"({"model_type":"opt","hidden_size":16,"num_attention_heads":2,"num_hidden_layers":3,
  "ffn_dim":32,"max_position_embeddings":8,"vocab_size":32})";

TEST(Trainable, AMixtralIsRefusedByRunAndByMeasure) {
  const TinyModel tiny;
  const ResolvedPlan plan = loaded(tiny, kMixtral);
  try {
    static_cast<void>(run(plan, {}, cpu_only()));
    FAIL() << "it ran";
  } catch (const MissingComponent& error) {
    EXPECT_THAT(error.what(), HasSubstr("block.0: the cpu backend has no kernels for experts"));
  }
  EXPECT_THROW(static_cast<void>(measure(plan.model, 8, plan.plan, {}, cpu_only())),
               MissingComponent);
}

TEST(Trainable, LlamasFamilyHasKernelsOnBothBackends) {
  const TinyModel tiny;
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    const ResolvedPlan plan = loaded(tiny, tiny_llama(family, "").text);
    for (const BackendKind backend : {BackendKind::cpu, BackendKind::cuda})
      EXPECT_NO_THROW(require_trainable(plan, Replicas::one, backend)) << family;
  }
}

TEST(Trainable, CellsHaveKernelsOnBothBackends) {
  for (const TinyConfig& config : {tiny_resnet(true), tiny_unet(), tiny_amoebanet()}) {
    const TinyModel tiny(config);
    const ResolvedPlan plan = tiny.load(tiny.plan({2}, 2));
    for (const BackendKind backend : {BackendKind::cpu, BackendKind::cuda})
      EXPECT_NO_THROW(require_trainable(plan, Replicas::one, backend)) << config.text;
  }
}

// Messages past stages CUDA does not send.
TEST(Trainable, SkipsGoDirectlyOnTheCpuAlone) {
  const TinyModel tiny(tiny_unet());
  Plan plan = tiny.plan({1, 2, 4}, 2);
  plan.skips = SkipTransport::direct;
  EXPECT_NO_THROW(require_trainable(tiny.load(plan), Replicas::one, BackendKind::cpu));
  EXPECT_THAT([&] { require_trainable(tiny.load(plan), Replicas::one, BackendKind::cuda); },
              ThrowsMessage<MissingComponent>(
                  "skips: direct: the cpu backend sends them so, the cuda backend does not"));
}

// All that is lacking stands in one line: of layers, of the optimizer and of the plan.
TEST(Trainable, AllThatCudaLacksIsNamedAtOnce) {
  const TinyModel tiny;
  std::string config = tiny_bert(0).text;
  config.replace(config.find("BertForMaskedLM"), 15, "BertModel");
  ResolvedPlan plan = loaded(tiny, config);
  auto& block = std::get<TransformerShape>(plan.model.layers[1].shape);
  block.window = 4;
  block.parallel = true;
  plan.plan.optimizer.nesterov = true;
  plan.plan.cp = 2;
  EXPECT_THAT(
      [&] { require_trainable(plan, Replicas::one, BackendKind::cuda); },
      ThrowsMessage<MissingComponent>(testing::AllOf(
          HasSubstr("the plan has cp = 2; that can be forecast, not run; and "),
          HasSubstr("block.0: the cuda backend has no kernels for windows of attention that is not "
                    "causal, this order of norms, a pooler before the head (pooler) and a pooled "
                    "head (pooler); it can be forecast, not trained or measured; and optimizer: "
                    "the cuda backend has no kernels for nesterov; the "
                    "cpu backend has"))));
}

// What no backend runs of a plan stands in one line; ZeRO's stages, re-materialisation of cores and
// of several blocks at a time run on both.
TEST(Trainable, WhatCanOnlyBeForecastIsNamedTogether) {
  const TinyModel tiny;
  ResolvedPlan plan = tiny.load(tiny.plan({2}, 2));
  plan.plan.recompute = parse_recompute_word("selective").value();
  plan.plan.zero = 3;
  for (const BackendKind backend : {BackendKind::cpu, BackendKind::cuda}) {
    require_trainable(plan, Replicas::one, backend);
    plan.plan.recompute = parse_recompute_word("full:2").value();
    require_trainable(plan, Replicas::one, backend);
  }
  plan.plan.cp = plan.plan.ep = 2;
  plan.plan.recompute = parse_recompute_word("selective:layernorm").value();
  EXPECT_THAT([&] { require_trainable(plan, Replicas::one, BackendKind::cpu); },
              ThrowsMessage<MissingComponent>(testing::StrEq(
                  "the plan has cp = 2, ep = 2 and recompute = selective:layernorm; that can be "
                  "forecast, not run")));
}

// What would train to the same weights and in another time is no plan that was run.
TEST(Trainable, WhatIsNotDoneBesideOtherWorkIsNotRun) {
  const TinyModel tiny;
  ResolvedPlan plan = tiny.load(tiny.plan({2}, 2));
  plan.plan.zero_secondary = 2;
  plan.plan.overlap_tensor_parallel = true;
  EXPECT_THAT([&] { require_trainable(plan, Replicas::one, BackendKind::cpu); },
              ThrowsMessage<MissingComponent>(testing::StrEq(
                  "the plan has zero_secondary = 2 and overlap_tensor_parallel; that can be "
                  "forecast, not run")));
}

// Windows of attention: the CPU has no kernels for them, CUDA has.
TEST(Trainable, WindowsAreCudas) {
  const TinyModel tiny;
  ResolvedPlan plan = loaded(tiny, kLlama);
  std::get<TransformerShape>(plan.model.layers[1].shape).window = 4;
  EXPECT_NO_THROW(require_kernels(plan.model, BackendKind::cuda));
  EXPECT_THAT([&] { require_kernels(plan.model, BackendKind::cpu); },
              ThrowsMessage<MissingComponent>(
                  HasSubstr("block.0: the cpu backend has no kernels for windows or sinks")));
}

// What a config scales its positions by that is not computed is forecast, and refused by name.
TEST(Trainable, AScalingOfPositionsThatIsNotComputedIsRefused) {
  const TinyModel tiny;
  std::string config = kLlama;
  config.insert(config.size() - 1, R"(,"rope_scaling":{"type":"yarn","factor":4.0})");
  try {
    static_cast<void>(run(loaded(tiny, config), {}, cpu_only()));
    FAIL() << "it ran";
  } catch (const MissingComponent& error) {
    EXPECT_THAT(error.what(), HasSubstr("no kernels for this scaling of rotary positions"));
  }
}

TEST(Trainable, ABertIsRefusedWithAPooler) {
  const TinyModel tiny;
  const ResolvedPlan masked = loaded(tiny, tiny_bert(0).text);
  for (const BackendKind backend : {BackendKind::cpu, BackendKind::cuda})
    require_trainable(masked, Replicas::one, backend);
  std::string config = tiny_bert(0).text;
  config.replace(config.find("BertForMaskedLM"), 15, "BertModel");
  const ResolvedPlan bare = loaded(tiny, config);
  EXPECT_THAT([&] { require_trainable(bare, Replicas::one, BackendKind::cpu); },
              ThrowsMessage<MissingComponent>(
                  HasSubstr("pooler: the cpu backend has no kernels for a pooler")));
}

// Five positions, of four patches and the class token.
TEST(Trainable, AVitIsRefusedForOtherLengths) {
  const TinyModel tiny(tiny_vit(0));
  const ResolvedPlan plan = tiny.load(tiny.plan({2}, 2));
  for (const BackendKind backend : {BackendKind::cpu, BackendKind::cuda})
    require_trainable(plan, Replicas::one, backend);
  Plan shorter = tiny.plan({2}, 2);
  shorter.seq_length = 4;
  const ResolvedPlan cut = tiny.load(shorter);
  EXPECT_THAT([&] { require_trainable(cut, Replicas::one, BackendKind::cpu); },
              ThrowsMessage<InputError>(
                  HasSubstr("seq_length: an image has 5 positions, the plan's sequences 4")));
}

// Samples of next tokens have no types in them, and steps of masked tokens each another number of
// labels.
TEST(Trainable, TypesAndGraphsAreOfSamplesThatHaveThem) {
  const TinyModel tiny(tiny_bert(0, "", 2, 32, 16));
  ResolvedPlan plan = tiny.load(tiny.plan({}, 2));
  require_trainable(plan, Replicas::one, BackendKind::cpu);
  require_trainable(plan, Replicas::one, BackendKind::cuda);
  ResolvedPlan graphs = plan;
  graphs.plan.cuda_graphs = CudaGraphs::of_step();
  EXPECT_THAT([&] { require_trainable(graphs, Replicas::one, BackendKind::cuda); },
              ThrowsMessage<MissingComponent>(HasSubstr("cuda_graphs = step")));
  for (Layer& layer : plan.model.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape)) block->causal = true;
  }
  for (const BackendKind backend : {BackendKind::cpu, BackendKind::cuda}) {
    EXPECT_THAT([&] { require_trainable(plan, Replicas::one, backend); },
                ThrowsMessage<MissingComponent>(
                    HasSubstr("no kernels for token types in front of causal blocks")));
  }
}

TEST(Trainable, AnEmptyStageIsRefused) {
  const TinyModel tiny;
  try {
    static_cast<void>(run(tiny.load(tiny.plan({2, 2}, 2)), {}, cpu_only()));
    FAIL() << "it ran";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("stage 1 of 3 has none of the 6 layers"));
  }
}

// OPT is GPT-2's design with ReLU and a narrower MLP. Three of four synthetic tokens follow from
// the one before, so of the uniform ln 32 = 3.47 a trained model keeps 1.4; the bound is two thirds
// of the way there.
void expect_training(const std::string& config) {
  const TinyModel tiny;
  ResolvedPlan plan = loaded(tiny, config);
  plan.plan.optimizer.learning_rate = 2e-2;
  RunOptions options;
  options.steps = 300;
  options.warmup_steps = 0;
  const RunResult result = run(plan, options, cpu_only());
  EXPECT_NEAR(result.steps.front().loss, std::log(32.0), 0.1);
  double last = 0;
  for (std::size_t i = 280; i < 300; ++i) last += result.steps[i].loss / 20;
  EXPECT_LT(last, 2.1);
}

TEST(Trainable, AnOptTrains) { expect_training(kOpt); }

TEST(Trainable, ALlamaTrains) { expect_training(kLlama); }

// Of the tokens that BERT guesses most are read as the mask, so they are known by the rule from the
// one before: to guess evenly is ln 32 = 3.47.
TEST(Trainable, ABertLearnsToGuess) {
  const TinyModel tiny(tiny_bert(0, "", 2, 32, 16));
  Plan plan = tiny.plan({2}, 4);
  plan.micro_batch_size = 8;
  plan.optimizer.learning_rate = 1e-2;
  RunOptions options;
  options.steps = 400;
  options.warmup_steps = 0;
  const RunResult result = run(tiny.load(plan), options, cpu_only());
  double first = 0, last = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    first += result.steps[i].loss / 20;
    last += result.steps[380 + i].loss / 20;
  }
  EXPECT_GT(first, 3.0);
  EXPECT_LT(last, 2.3);
}

}  // namespace
}  // namespace weir::trainable_test
