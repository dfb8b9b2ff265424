// Training on a GPU keeps the executor's promises: the same parameters to the last bit for every
// pipeline, and the CPU's losses.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "exec/cuda/cuda_backend.hpp"
#include "exec/weights/safetensors.hpp"
#include "tests/exec/tiny_cnn.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::training_test {
namespace {

RunResult train(const ResolvedPlan& loaded, BackendKind backend, int steps,
                std::vector<std::filesystem::path> data = {}) {
  RunOptions options;
  options.data = std::move(data);
  options.backend = backend;
  options.steps = steps;
  options.warmup_steps = 0;
  return run(loaded, options,
             {{BackendKind::cpu, make_cpu_backend}, {BackendKind::cuda, cuda_backends()}});
}
RunResult train(const TinyModel& model, const Plan& plan, BackendKind backend, int steps) {
  return train(model.load(plan), backend, steps);
}

#ifdef WEIR_EMULATED_DEVICE  // where a step takes a second
const std::vector<std::vector<int>> kPartitions = {{}, {1, 3}};
const std::vector<const char*> kSchedules = {"1f1b", "zb-h1"};
constexpr int kSteps = 2, kLosses = 4;
#else
const std::vector<std::vector<int>> kPartitions = {{}, {1}, {3}, {1, 3}, {1, 2, 4}};
const std::vector<const char*> kSchedules = {"gpipe", "1f1b", "zb-h1"};
constexpr int kSteps = 3, kLosses = 20;
#endif

// The same bits for every partition, schedule and mode of re-materialisation. 20 tokens: a whole
// tile of our fused attention's kernels and a ragged one.
void expect_equal_for_every_pipeline(Dtype dtype, AttentionKind attention, const TinyModel& model) {
  const auto hash = [&](Plan plan) {
    plan.dtype = dtype;
    plan.attention = attention;
    return train(model, plan, BackendKind::cuda, kSteps).parameters_sha256;
  };
  const std::string expected = hash(model.plan({}, 4, "gpipe"));
  for (const std::vector<int>& boundaries : kPartitions) {
    for (const char* schedule : kSchedules) {
      if (boundaries.empty() && schedule == std::string("zb-h1")) continue;  // a pipeline's
      for (const RecomputeMode mode :
           {RecomputeMode::none, RecomputeMode::full, RecomputeMode::stage}) {
        Plan plan = model.plan(boundaries, 4, schedule);
        plan.recompute.mode = mode;
        EXPECT_EQ(hash(plan), expected)
            << "K" << plan.pp << " " << schedule << " " << to_string(mode);
      }
    }
  }
}

void expect_equal_for_every_pipeline(Dtype dtype,
                                     AttentionKind attention = AttentionKind::unfused) {
  expect_equal_for_every_pipeline(dtype, attention, TinyModel(true, 0.1, 32, 3, 20));
}

TEST(CudaTraining, ParametersAreBitwiseEqualForEveryPipeline) {
  WEIR_NEEDS_DEVICE();
  expect_equal_for_every_pipeline(Dtype::fp32);
}

TEST(CudaTraining, ParametersAreBitwiseEqualForEveryPipelineInBf16) {
  WEIR_NEEDS_BF16();
  expect_equal_for_every_pipeline(Dtype::bf16);
}

TEST(CudaTraining, ParametersAreBitwiseEqualForEveryPipelineWithFusedAttention) {
  WEIR_NEEDS_DEVICE();
  expect_equal_for_every_pipeline(Dtype::fp32, AttentionKind::fused);
}

TEST(CudaTraining, ParametersAreBitwiseEqualForEveryPipelineWithFusedAttentionInBf16) {
  WEIR_NEEDS_BF16();
  expect_equal_for_every_pipeline(Dtype::bf16, AttentionKind::fused);
}

const char* const kDropout = R"(,"attention_dropout":0.1)";

// Llama's family: keys that two heads of queries share, which are together wider than the residual
// stream; RMS norms, rotary positions and a gated MLP of an odd number of vectors.
TinyConfig llamas_family(const std::string& family, const std::string& more) {
  return tiny_llama(family, more, 3, 32, 20);
}

// A head of its own; and the embedding's, behind norms of heads.
TEST(CudaTraining, ParametersOfALlamaAreBitwiseEqualForEveryPipeline) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model(llamas_family("llama", std::string(kLlama3Scaling) + kDropout));
  expect_equal_for_every_pipeline(Dtype::fp32, AttentionKind::unfused, model);
}

TEST(CudaTraining, ParametersOfAQwen3AreBitwiseEqualForEveryPipelineInBf16) {
  WEIR_NEEDS_BF16();
  const TinyModel model(llamas_family("qwen3", R"(,"tie_word_embeddings":true)"));
  expect_equal_for_every_pipeline(Dtype::bf16, AttentionKind::fused, model);
}

// Norms behind the sums, queries that see both sides, a normalised embedding with types, and a head
// with a transform and a bias, which bf16 pads from 37 tokens to 40; its table is the embedding's.
TEST(CudaTraining, ParametersOfABertAreBitwiseEqualForEveryPipeline) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model(tiny_bert(0.1, "", 3, 37, 20));
  expect_equal_for_every_pipeline(Dtype::fp32, AttentionKind::unfused, model);
}

TEST(CudaTraining, ParametersOfABertAreBitwiseEqualForEveryPipelineInBf16) {
  WEIR_NEEDS_BF16();
  const TinyModel model(tiny_bert(0.0, "", 3, 37, 20));
  expect_equal_for_every_pipeline(Dtype::bf16, AttentionKind::fused, model);
}

// Images of 9 x 9, whose last row and column are in no patch: five positions, five classes, which
// bf16 pads to eight.
TEST(CudaTraining, ParametersOfAVitAreBitwiseEqualForEveryPipeline) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model(tiny_vit(0.1));
  expect_equal_for_every_pipeline(Dtype::fp32, AttentionKind::unfused, model);
}

TEST(CudaTraining, ParametersOfAVitAreBitwiseEqualForEveryPipelineInBf16) {
  WEIR_NEEDS_BF16();
  const TinyModel model(tiny_vit(0.0));
  expect_equal_for_every_pipeline(Dtype::bf16, AttentionKind::fused, model);
}

// Convolutions, batch norms with their running statistics, which are hashed with the weights, and
// residual sums; skips that stages hand on; cells that read two others.
TEST(CudaTraining, ParametersOfAResNetAreBitwiseEqualForEveryPipeline) {
  WEIR_NEEDS_DEVICE();
  for (const bool bottleneck : {false, true}) {
    const TinyModel model(tiny_resnet(bottleneck));
    expect_equal_for_every_pipeline(Dtype::fp32, AttentionKind::unfused, model);
  }
}
TEST(CudaTraining, ParametersOfAUNetAreBitwiseEqualForEveryPipeline) {
  WEIR_NEEDS_DEVICE();
  expect_equal_for_every_pipeline(Dtype::fp32, AttentionKind::unfused, TinyModel(tiny_unet()));
}
TEST(CudaTraining, ParametersOfAnAmoebaNetAreBitwiseEqualForEveryPipeline) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model(tiny_amoebanet());
  expect_equal_for_every_pipeline(Dtype::fp32, AttentionKind::unfused, model);
}
TEST(CudaTraining, ParametersOfCellsAreBitwiseEqualForEveryPipelineInBf16) {
  WEIR_NEEDS_BF16();
  for (const TinyConfig& config : {tiny_resnet(true), tiny_unet()})
    expect_equal_for_every_pipeline(Dtype::bf16, AttentionKind::unfused, TinyModel(config));
}
TEST(CudaTraining, ParametersOfAnAmoebaNetAreBitwiseEqualForEveryPipelineInBf16) {
  WEIR_NEEDS_BF16();
  const TinyModel model(tiny_amoebanet());
  expect_equal_for_every_pipeline(Dtype::bf16, AttentionKind::unfused, model);
}

// `tolerance` is relative to the CPU's loss in fp32, with unfused attention and dropout of its
// probabilities.
void expect_the_cpus_losses(Plan plan, Dtype dtype, double tolerance, AttentionKind attention,
                            const TinyModel& model) {
  const RunResult cpu = train(model, plan, BackendKind::cpu, kLosses);
  plan.dtype = dtype;
  plan.attention = attention;
  const RunResult cuda = train(model, plan, BackendKind::cuda, kLosses);
  for (std::size_t step = 0; step < std::size_t{kLosses}; ++step) {
    EXPECT_NEAR(cuda.steps[step].loss, cpu.steps[step].loss, tolerance * cpu.steps[step].loss)
        << "step " << step;
  }
  EXPECT_EQ(cuda.peak_memory.size(), 2U);
}

void expect_the_cpus_losses(Dtype dtype, double tolerance, AttentionKind attention,
                            const TinyModel& model) {
  expect_the_cpus_losses(model.plan({3}, 4), dtype, tolerance, attention, model);
}

void expect_the_cpus_losses(Dtype dtype, double tolerance, double dropout = 0.1,
                            AttentionKind attention = AttentionKind::unfused, int vocabulary = 32) {
  expect_the_cpus_losses(dtype, tolerance, attention, TinyModel(true, dropout, vocabulary, 3, 20));
}

// The same masks and batches; the sums differ in order. Each step adds about 1e-6 of difference to
// parameters that are updated by 1e-3, and AdamW amplifies where a second moment is small: 1e-3 of
// the loss after 20 steps is asked.
TEST(CudaTraining, LossesAreTheCpus) {
  WEIR_NEEDS_DEVICE();
  expect_the_cpus_losses(Dtype::fp32, 1e-3);
  expect_the_cpus_losses(Dtype::fp32, 1e-3, 0.0);  // residual adds are then the products'
}

// bf16 rounds each activation and working weight by up to 2^-9; a loss is a mean over 160 tokens of
// what some twenty roundings on the way to a logit leave, each of its own sign: about 2^-9 *
// sqrt(20) = 9e-3 of a logit of size 1 for one token, a twelfth of that for the mean. Gradients a
// percent off move the parameters a percent of what 20 steps do. 2e-2 of the loss is asked.
TEST(CudaTraining, LossesInBf16AreTheCpusInFp32) {
  WEIR_NEEDS_BF16();
  expect_the_cpus_losses(Dtype::bf16, 2e-2);
}

// 301 tokens are padded to 304, in the embedding's table too, which is the same.
TEST(CudaTraining, LossesOfAnOddVocabularyInBf16AreTheCpusInFp32) {
  WEIR_NEEDS_BF16();
  expect_the_cpus_losses(Dtype::bf16, 2e-2, 0.1, AttentionKind::unfused, 301);
}

TEST(CudaTraining, LossesWithFusedAttentionAreTheCpus) {
  WEIR_NEEDS_DEVICE();
  expect_the_cpus_losses(Dtype::fp32, 1e-3, 0.1, AttentionKind::fused);
}

// With dropout our own kernels, without it cuDNN's where the build has it.
TEST(CudaTraining, LossesWithFusedAttentionInBf16AreTheCpusInFp32) {
  WEIR_NEEDS_BF16();
  expect_the_cpus_losses(Dtype::bf16, 2e-2, 0.1, AttentionKind::fused);
  expect_the_cpus_losses(Dtype::bf16, 2e-2, 0.0, AttentionKind::fused);
}

// Angles that are slowed, linearly and as Llama 3.1's; biases on queries, keys and values alone
// (Qwen2); norms of heads (Qwen3); biases everywhere and a curve that is not SiLU's. Mistral's
// block is Llama's.
const std::vector<std::pair<const char*, std::string>> kFamilies = {
    {"llama", std::string(kLlama3Scaling) + kDropout},
    {"llama", R"(,"attention_bias":true,"mlp_bias":true,"hidden_act":"gelu_new",)"
              R"("rope_scaling":{"rope_type":"linear","factor":4.0})"},
    {"qwen2", R"(,"tie_word_embeddings":true)"},
    {"qwen3", R"(,"rope_theta":1000000.0)"}};

TEST(CudaTraining, LossesOfLlamasFamilyAreTheCpus) {
  WEIR_NEEDS_DEVICE();
  for (const auto& [family, more] : kFamilies) {
    SCOPED_TRACE(family + more);
    const TinyModel model(llamas_family(family, more));
    for (const AttentionKind attention : {AttentionKind::unfused, AttentionKind::fused})
      expect_the_cpus_losses(Dtype::fp32, 1e-3, attention, model);
  }
}

TEST(CudaTraining, LossesOfLlamasFamilyInBf16AreTheCpusInFp32) {
  WEIR_NEEDS_BF16();
  for (const auto& [family, more] : kFamilies) {
    SCOPED_TRACE(family + more);
    const TinyModel model(llamas_family(family, more));
    expect_the_cpus_losses(Dtype::bf16, 2e-2, AttentionKind::fused, model);
  }
  expect_the_cpus_losses(Dtype::bf16, 2e-2, AttentionKind::unfused,
                         TinyModel(llamas_family("qwen3", "")));
}

// With dropout and without, when residuals are added by the products.
TEST(CudaTraining, LossesOfABertAreTheCpus) {
  WEIR_NEEDS_DEVICE();
  for (const double dropout : {0.1, 0.0}) {
    const TinyModel model(tiny_bert(dropout, "", 3, 37, 20));
    for (const AttentionKind attention : {AttentionKind::unfused, AttentionKind::fused})
      expect_the_cpus_losses(Dtype::fp32, 1e-3, attention, model);
  }
}

// Data of one's own, where drawn samples have one type and a label each: types of both kinds, and
// of four samples, which are micro-batches by themselves, one without any label.
TEST(CudaTraining, LossesOfALabelledBertAreTheCpus) {
  WEIR_NEEDS_DEVICE();
  constexpr std::int64_t kSamples = 8, kTokens = 8;
  const TinyModel model(tiny_bert(0, "", 3, 32, kTokens));
  std::vector<std::int32_t> ids, types, labels;
  for (std::int64_t i = 0; i < kSamples * kTokens; ++i) {
    const auto token = static_cast<std::int32_t>((7 * i + 3) % 32);
    const bool labelled = i / kTokens % 4 != 1 && i % 3 == 0;
    ids.push_back(labelled ? 31 : token);
    types.push_back(i % kTokens < 3 ? 0 : 1);
    labels.push_back(labelled ? token : -100);
  }
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("weir-cuda-" + std::to_string(::getpid()) + ".safetensors");
  const std::vector<std::int64_t> shape{kSamples, kTokens};
  SafetensorsWriter writer(
      file,
      {{"input_ids", shape, "I32"}, {"labels", shape, "I32"}, {"token_type_ids", shape, "I32"}},
      {});
  for (const auto* part : {&ids, &labels, &types}) writer.add(std::as_bytes(std::span(*part)));
  writer.commit();
  const auto losses = [&](BackendKind backend) {
    return train(model.load(model.plan({3}, 4)), backend, kLosses, {file}).steps;
  };
  const auto cpu = losses(BackendKind::cpu), cuda = losses(BackendKind::cuda);
  for (std::size_t step = 0; step < std::size_t{kLosses}; ++step)
    EXPECT_NEAR(cuda[step].loss, cpu[step].loss, 1e-3 * cpu[step].loss) << "step " << step;
  std::filesystem::remove(file);
}

TEST(CudaTraining, LossesOfABertInBf16AreTheCpusInFp32) {
  WEIR_NEEDS_BF16();
  for (const double dropout : {0.1, 0.0}) {
    // By eights, so that the products carry the curve and its slope, as BERT's own do.
    TinyConfig config = tiny_bert(dropout, R"(,"hidden_act":"gelu_new")", 3, 37, 20);
    const std::string odd = R"("intermediate_size":20)";
    config.text.replace(config.text.find(odd), odd.size(), R"("intermediate_size":24)");
    const TinyModel model(config);
    for (const AttentionKind attention : {AttentionKind::unfused, AttentionKind::fused})
      expect_the_cpus_losses(Dtype::bf16, 2e-2, attention, model);
  }
}

TEST(CudaTraining, LossesOfAVitAreTheCpus) {
  WEIR_NEEDS_DEVICE();
  for (const double dropout : {0.1, 0.0}) {
    const TinyModel model(tiny_vit(dropout));
    for (const AttentionKind attention : {AttentionKind::unfused, AttentionKind::fused})
      expect_the_cpus_losses(Dtype::fp32, 1e-3, attention, model);
  }
}

TEST(CudaTraining, LossesOfAVitInBf16AreTheCpusInFp32) {
  WEIR_NEEDS_BF16();
  for (const double dropout : {0.1, 0.0}) {
    const TinyModel model(tiny_vit(dropout));
    for (const AttentionKind attention : {AttentionKind::unfused, AttentionKind::fused})
      expect_the_cpus_losses(Dtype::bf16, 2e-2, attention, model);
  }
}

TEST(CudaTraining, LossesOfAResNetAreTheCpus) {
  WEIR_NEEDS_DEVICE();
  for (const bool bottleneck : {false, true}) {
    const TinyModel model(tiny_resnet(bottleneck));
    expect_the_cpus_losses(Dtype::fp32, 1e-3, AttentionKind::unfused, model);
  }
}

TEST(CudaTraining, LossesOfAUNetAreTheCpus) {
  WEIR_NEEDS_DEVICE();
  expect_the_cpus_losses(Dtype::fp32, 1e-3, AttentionKind::unfused, TinyModel(tiny_unet()));
}

// Its last maps are one place, so norms there are of a micro-batch's few samples, and rounding
// grows: over 4, at a rate of 1e-3, the CPU's own losses move by percents in a few steps where
// oneDNN adds in another order (ONEDNN_MAX_CPU_ISA=SSE41); over 8 at 1e-4 they stay.
TEST(CudaTraining, LossesOfAnAmoebaNetAreTheCpus) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model(tiny_amoebanet());
  Plan plan = model.plan({3}, 2);
  plan.micro_batch_size = 8;
  plan.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 1e-4, .momentum = 0.9};
  expect_the_cpus_losses(plan, Dtype::fp32, 1e-3, AttentionKind::unfused, model);
}

TEST(CudaTraining, LossesOfCellsInBf16AreTheCpusInFp32) {
  WEIR_NEEDS_BF16();
  for (const TinyConfig& config : {tiny_resnet(), tiny_resnet(true), tiny_unet()})
    expect_the_cpus_losses(Dtype::bf16, 2e-2, AttentionKind::unfused, TinyModel(config));
}

// The CPU has no windows (a config of Megatron's may), so each kind of attention is held against
// the other; and the losses are not those without.
TEST(CudaTraining, LossesWithinAWindowAreThoseOfEitherAttention) {
  WEIR_NEEDS_DEVICE();
  const auto losses = [](std::int64_t window, AttentionKind attention) {
    const TinyModel model(llamas_family("mistral", R"(,"sliding_window":null)"));
    Plan plan = model.plan({3}, 4);
    plan.attention = attention;
    ResolvedPlan loaded = model.load(plan);
    for (Layer& layer : loaded.model.layers) {
      if (auto* block = std::get_if<TransformerShape>(&layer.shape)) block->window = window;
    }
    return train(loaded, BackendKind::cuda, kLosses).steps;
  };
  const auto unfused = losses(7, AttentionKind::unfused), fused = losses(7, AttentionKind::fused),
             all = losses(0, AttentionKind::fused);
  for (std::size_t step = 0; step < std::size_t{kLosses}; ++step)
    EXPECT_NEAR(fused[step].loss, unfused[step].loss, 1e-3 * unfused[step].loss) << step;
  EXPECT_GT(std::abs(all.back().loss - fused.back().loss), 1e-3);
}

// Below the tiny models' norms, of about 1: every step is clipped.
constexpr double kClip = 0.05;

Plan clipped(Plan plan, OptimizerKind kind = OptimizerKind::adamw) {
  plan.optimizer = {.kind = kind, .learning_rate = 1e-2, .clip_norm = kClip};
  return plan;
}

// The squares of each weight are summed by its stage and together in model order, so the factor's
// bits are those of one rank; the table is tied, and its squares are of the sum of both uses.
TEST(CudaTraining, ClippedParametersAreBitwiseEqualForEveryPipeline) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model(true, 0.1, 32, 3, 20);
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd}) {
    const RunResult one = train(model, clipped(model.plan({}, 4), kind), BackendKind::cuda, kSteps);
    for (const std::vector<int>& boundaries : kPartitions) {
      const Plan plan = clipped(model.plan(boundaries, 4), kind);
      const RunResult found = train(model, plan, BackendKind::cuda, kSteps);
      EXPECT_EQ(found.parameters_sha256, one.parameters_sha256) << "K" << plan.pp;
      for (std::size_t step = 0; step < found.steps.size(); ++step)
        EXPECT_EQ(found.steps[step].gradient_norm, one.steps[step].gradient_norm) << step;
    }
  }
}

// The norm is that of the CPU's gradients: fp32 sums in another order, at step 0 of the same
// weights; later both have drifted as the losses may.
TEST(CudaTraining, ClippedLossesAndNormsAreTheCpus) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model(true, 0.1, 32, 3, 20);
  const Plan plan = clipped(model.plan({3}, 4));
  const RunResult cpu = train(model, plan, BackendKind::cpu, kLosses);
  const RunResult cuda = train(model, plan, BackendKind::cuda, kLosses);
  for (std::size_t step = 0; step < std::size_t{kLosses}; ++step) {
    const double loss = cpu.steps[step].loss, norm = cpu.steps[step].gradient_norm.value();
    EXPECT_NEAR(cuda.steps[step].loss, loss, 1e-3 * loss) << step;
    EXPECT_NEAR(cuda.steps[step].gradient_norm.value(), norm, (step == 0 ? 1e-5 : 1e-2) * norm)
        << step;
    EXPECT_GT(norm, kClip);
  }
}

}  // namespace
}  // namespace weir::training_test
