// Training on a GPU keeps the executor's promises: the same parameters to the last bit for every pipeline, and the
// CPU's losses. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "exec/cuda/cuda_backend.hpp"
#include "plan/error.hpp"
#include "tests/exec/tiny.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir {
namespace {

RunResult train(const TinyModel& model, const Plan& plan, BackendKind backend, int steps) {
  RunOptions options;
  options.backend = backend;
  options.steps = steps;
  options.warmup_steps = 0;
  return run(model.load(plan), options, {{BackendKind::cpu, make_cpu_backend}, {BackendKind::cuda, cuda_backends()}});
}

// The same bits for every partition, schedule and mode of re-materialisation. 20 tokens: a whole tile of our fused
// attention's kernels and a ragged one.
void expect_equal_for_every_pipeline(Dtype dtype, AttentionKind attention = AttentionKind::unfused) {
  const TinyModel model(true, 0.1, 32, 3, 20);
  const auto hash = [&](Plan plan) {
    plan.dtype = dtype;
    plan.attention = attention;
    return train(model, plan, BackendKind::cuda, 3).parameters_sha256;
  };
  const std::string expected = hash(model.plan({}, 4, "gpipe"));
  for (const std::vector<int>& boundaries : std::vector<std::vector<int>>{{}, {1}, {3}, {1, 3}, {1, 2, 4}}) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
      if (boundaries.empty() && schedule == std::string("zb-h1")) continue;  // a pipeline's
      for (const RecomputeMode mode : {RecomputeMode::none, RecomputeMode::full}) {
        Plan plan = model.plan(boundaries, 4, schedule);
        plan.recompute.mode = mode;
        EXPECT_EQ(hash(plan), expected) << "K" << plan.pp << " " << schedule << " " << (mode == RecomputeMode::full);
      }
    }
  }
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

// `tolerance` is relative to the CPU's loss in fp32, with unfused attention and dropout of its probabilities.
void expect_the_cpus_losses(Dtype dtype, double tolerance, double dropout = 0.1,
                            AttentionKind attention = AttentionKind::unfused) {
  const TinyModel model(true, dropout, 32, 3, 20);
  Plan plan = model.plan({3}, 4);
  const RunResult cpu = train(model, plan, BackendKind::cpu, 20);
  plan.dtype = dtype;
  plan.attention = attention;
  const RunResult cuda = train(model, plan, BackendKind::cuda, 20);
  for (std::size_t step = 0; step < 20; ++step) {
    EXPECT_NEAR(cuda.steps[step].loss, cpu.steps[step].loss, tolerance * cpu.steps[step].loss) << "step " << step;
  }
  EXPECT_EQ(cuda.peak_memory.size(), 2U);
}

// The same masks and batches; the sums differ in order. Each step adds about 1e-6 of difference to parameters that are
// updated by 1e-3, and AdamW amplifies where a second moment is small: 1e-3 of the loss after 20 steps is asked.
TEST(CudaTraining, LossesAreTheCpus) {
  WEIR_NEEDS_DEVICE();
  expect_the_cpus_losses(Dtype::fp32, 1e-3);
}

// bf16 rounds each activation and working weight by up to 2^-9; a loss is a mean over 160 tokens of what some twenty
// roundings on the way to a logit leave, each of its own sign: about 2^-9 * sqrt(20) = 9e-3 of a logit of size 1 for
// one token, a twelfth of that for the mean. Gradients a percent off move the parameters a percent of what 20 steps do.
// 2e-2 of the loss is asked.
TEST(CudaTraining, LossesInBf16AreTheCpusInFp32) {
  WEIR_NEEDS_BF16();
  expect_the_cpus_losses(Dtype::bf16, 2e-2);
}

// What is not taken in the first steps is not taken later, and the driver's own mark agrees that the pools were used.
TEST(CudaTraining, SteadyStateTakesNoMemory) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model;
  const RunResult result = train(model, model.plan({3}, 4, "1f1b"), BackendKind::cuda, 6);
  for (std::size_t step = 2; step < 6; ++step) EXPECT_EQ(result.steps[step].allocations, 0) << "step " << step;
  ASSERT_EQ(result.devices.size(), 2U);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_GT(result.devices[rank].pool_peak, Bytes(0)) << result.devices[rank].sharing;
    EXPECT_GT(result.devices[rank].multiprocessors, 0);
  }
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

// Where there is no device, the backend says so in one line; a format it does not compute in is a contradiction.
TEST(BackendOfCuda, SaysWhyNot) {
  EXPECT_THROW(static_cast<void>(make_cuda_backend({.dtype = Dtype::fp16})), UsageError);
  const CudaFacts facts = cuda_facts();
  if (facts.device) GTEST_SKIP() << "there is a device: " << facts.why;
  try {
    static_cast<void>(make_cuda_backend({}));
    FAIL() << "a backend without a device";
  } catch (const MissingComponent& missing) {
    EXPECT_EQ(std::string(missing.what()), "backend cuda: " + facts.why);
  }
}

// Capability 7.5 has no bf16 products; every format else, and every newer device, is taken.
TEST(BackendOfCuda, RefusesBf16BeforeCapability8) {
  const CudaDevice turing{.name = "T4", .major = 7, .minor = 5}, ampere{.name = "A100", .major = 8, .minor = 0};
  try {
    require_format(Dtype::bf16, turing);
    FAIL() << "bf16 on capability 7.5";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "bf16 needs compute capability 8.0; T4 has 7.5: use fp32");
  }
  EXPECT_NO_THROW(require_format(Dtype::fp32, turing));
  EXPECT_NO_THROW(require_format(Dtype::tf32, turing));
  EXPECT_NO_THROW(require_format(Dtype::bf16, ampere));
}

}  // namespace
}  // namespace weir
