// ZeRO-2 and ZeRO-3 on CUDA, slices and windows through the host's messages as between processes
// over MPI: the processes are threads here. As on the CPU (tests/exec/shards_test): one set of bits
// for both stages and every pipeline, what is sent and held is what the forecast says. And the ways
// to re-materialise that change no bit.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "costmodel/memory/memory.hpp"
#include "exec/cuda/cuda_backend.hpp"
#include "plan/job/summary.hpp"
#include "tests/exec/copied_transport.hpp"
#include "tests/exec/spans.hpp"
#include "tests/exec/thread_processes.hpp"
#include "tests/exec/tiny_cnn.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::shards_test {
namespace {

RunOptions shard_steps(int count, BackendKind backend = BackendKind::cuda) {
  RunOptions options;
  options.backend = backend;
  options.steps = count;
  options.warmup_steps = 0;
  options.trace = false;  // the tests' transport keeps no times
  return options;
}

ThreadsResult as_threads(const ResolvedPlan& loaded, const RunOptions& options) {
  ThreadsResult found = run_as_threads(
      loaded, options,
      [](int) -> Backends {
        return {{BackendKind::cpu, make_cpu_backend}, {BackendKind::cuda, cuda_backends()}};
      },
      copied_links());
  for (const auto& [kind, line] : found.endings) ADD_FAILURE() << line;
  return found;
}

RunResult trained_shards(const TinyModel& model, const Plan& plan, const RunOptions& options) {
  return as_threads(model.load(plan), options).leaders;
}

// Six micro-batches, dealt to `dp` replicas.
Plan sharded(const TinyModel& model, int zero, int dp, std::vector<int> boundaries = {},
             const char* schedule = "1f1b") {
  Plan plan = model.plan(std::move(boundaries), 6 / dp, schedule);
  plan.dp = dp;
  plan.zero = zero;
  plan.slots = 0;
  return plan;
}

void expect_same_losses(const RunResult& found, const RunResult& expected, double relative) {
  ASSERT_EQ(found.steps.size(), expected.steps.size());
  for (std::size_t i = 0; i < expected.steps.size(); ++i) {
    const double loss = expected.steps[i].loss;
    EXPECT_NEAR(found.steps[i].loss, loss, relative * loss) << "step " << i;
  }
}

// 37 rows: no slice ends with a row, and in bf16 a whole table is padded to 40, a slice is not. The
// losses of the CPU's replicas in fp32, to 0.1 %, and in bf16 to 2 %.
void expect_one_set_of_bits(Dtype dtype, double tolerance) {
  const TinyModel model(true, 0.1, 37, 4);
  const struct {
    std::vector<int> boundaries;
    const char* schedule;
    const char* recompute = "none";
  } cases[] = {{{}, "gpipe"},
               {{}, "1f1b", "full:2"},
               {{3}, "zb-h1", "full"},
               {{2}, "1f1b", "selective"},
               {{1, 4}, "zb-h1", "stage"}};
  std::string bits;
  for (const int zero : {2, 3}) {
    for (const auto& c : cases) {
      Plan plan = sharded(model, zero, 2, c.boundaries, c.schedule);
      plan.recompute = parse_recompute_word(c.recompute).value();
      plan.overlap_grad_reduce = plan.pp == 2;
      const RunOptions on_cpu = shard_steps(2, BackendKind::cpu);
      const RunResult expected = trained_shards(model, plan, on_cpu);
      plan.dtype = dtype;
      SCOPED_TRACE(summary(plan));
      const RunResult found = trained_shards(model, plan, shard_steps(2));
      expect_same_losses(found, expected, tolerance);
      if (bits.empty()) bits = found.parameters_sha256;
      EXPECT_EQ(found.parameters_sha256, bits);
    }
  }
}

TEST(CudaShards, BitsAreEqualForEveryPipelineAndBothStages) {
  WEIR_NEEDS_DEVICE();
  expect_one_set_of_bits(Dtype::fp32, 1e-3);
}
TEST(CudaShards, BitsAreEqualInBf16) {
  WEIR_NEEDS_BF16();
  expect_one_set_of_bits(Dtype::bf16, 0.02);
}

// Each replica has one micro-batch: a step's gradient is the same sum of terms whoever adds them.
TEST(CudaShards, WithOneMicroBatchEachTheBitsAreThoseOfWholeGradients) {
  WEIR_NEEDS_BF16();
  const TinyModel model(true, 0.1, 37);
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
    const auto bits = [&](int zero) {
      Plan plan = sharded(model, zero, 6, {2});
      plan.dtype = dtype;
      return trained_shards(model, plan, shard_steps(2)).parameters_sha256;
    };
    const std::string expected = bits(0);
    for (const int zero : {1, 2, 3}) EXPECT_EQ(bits(zero), expected) << zero;
  }
}

// Divided layers and clipping beside them, with rows divided and without.
TEST(CudaShards, GoWithDividedLayersAndClipping) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model(tiny_llama("qwen3", "", 2, 37));
  for (const bool sequence_parallel : {false, true}) {
    const auto result = [&](int zero, std::vector<int> boundaries,
                            BackendKind backend = BackendKind::cuda) {
      Plan plan = sharded(model, zero, 2, std::move(boundaries));
      plan.microbatches = 2;
      plan.tp = 2;
      plan.sequence_parallel = sequence_parallel;
      plan.optimizer.clip_norm = 0.5;
      return trained_shards(model, plan, shard_steps(2, backend));
    };
    const RunResult two = result(2, {2});
    expect_same_losses(two, result(2, {2}, BackendKind::cpu), 1e-3);
    EXPECT_EQ(result(3, {2}).parameters_sha256, two.parameters_sha256);
    EXPECT_EQ(result(3, {}).parameters_sha256, two.parameters_sha256);
  }
}

// As tests/exec/shards_test derives: each way over D replicas and of n numbers (D - 1) n in all;
// sums in fp32, what is gathered in the format of the weights.
TEST(CudaShards, SendWhatIsForecast) {
  WEIR_NEEDS_BF16();
  constexpr int kReplicas = 3, kMicrobatches = 2;
  const TinyModel model(false, 0.1, 37, 2);
  const ResolvedPlan loaded = model.load(sharded(model, 0, kReplicas, {2}));
  std::int64_t numbers = 0;
  for (int l = 0; l < loaded.part->size(); ++l) numbers += loaded.part->layer(l).parameters;
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
    const auto bytes_of_a_step = [&](int zero) {
      Plan plan = sharded(model, zero, kReplicas, {2});
      plan.dtype = dtype;
      const auto sent = [&](int count) {
        return as_threads(model.load(plan), shard_steps(count)).bytes;
      };
      return sent(2) - sent(1);
    };
    const std::int64_t way = (kReplicas - 1) * numbers, zero = bytes_of_a_step(0);
    const std::int64_t sum = way * 4, gather = way * bytes_per_element(dtype);
    // ZeRO-0 sums a step's gradients both ways; ZeRO-2 a micro-batch's one way, and gathers weights
    // once a step; ZeRO-3 in each F and B.
    EXPECT_EQ(bytes_of_a_step(2), zero - 2 * sum + kMicrobatches * sum + gather);
    EXPECT_EQ(bytes_of_a_step(3), zero - 2 * sum + kMicrobatches * (sum + 2 * gather));
  }
}

// Of one rank, all that lives at once does: the arena's peak to the byte.
void expect_the_arenas_memory(const TinyModel& model, const std::vector<int>& stages) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
    for (const int zero : stages) {
      for (const char* recompute : {"none", "full:2", "selective"}) {
        const bool rebuilt = std::string(recompute) != "none";
        Plan plan = sharded(model, zero, rebuilt ? 3 : 2, {}, rebuilt ? "zb-h1" : "gpipe");
        plan.dtype = dtype;
        plan.recompute = parse_recompute_word(recompute).value();
        SCOPED_TRACE(summary(plan));
        const ResolvedPlan loaded = model.load(plan);
        const RunResult result = trained_shards(model, loaded.plan, shard_steps(1));
        const std::vector<Span> spans = spans_in_order(loaded.program);
        const auto peaks =
            memory_peaks(loaded, loaded.program, std::span<const Span>(spans), result.scratch);
        EXPECT_EQ(peaks.front().peak.count(), result.peak_memory.front().count());
      }
    }
  }
}

TEST(CudaShards, TheForecastOfTheirMemoryIsTheArenas) {
  WEIR_NEEDS_BF16();
  expect_the_arenas_memory(TinyModel(true, 0.1, 501, 3), {2, 3});
}

// A head's bias is padded in bf16 as its rows are.
TEST(CudaShards, TheForecastOfABertsMemoryIsTheArenas) {
  WEIR_NEEDS_BF16();
  expect_the_arenas_memory(TinyModel(tiny_bert(0.1, "", 3, 501)), {0, 3});
}

TEST(CudaShards, TheForecastOfAVitsMemoryIsTheArenas) {
  WEIR_NEEDS_BF16();
  expect_the_arenas_memory(TinyModel(tiny_vit(0.1)), {0, 3});
}

TEST(CudaShards, TheForecastOfCellsMemoryIsTheArenas) {
  WEIR_NEEDS_BF16();
  for (const TinyConfig& config : {tiny_resnet(), tiny_unet(), tiny_amoebanet()})
    expect_the_arenas_memory(TinyModel(config), {0, 3});
}

// As replicas whose weights are divided, through a pipeline and without; the CPU's losses.
void expect_to_train_in_shards(const TinyModel& model) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
    const auto result = [&](int zero, std::vector<int> boundaries,
                            BackendKind backend = BackendKind::cuda) {
      Plan plan = sharded(model, zero, 2, std::move(boundaries));
      plan.dtype = backend == BackendKind::cuda ? dtype : Dtype::fp32;
      return trained_shards(model, plan, shard_steps(2, backend));
    };
    const RunResult two = result(2, {2});
    expect_same_losses(two, result(2, {2}, BackendKind::cpu), dtype == Dtype::fp32 ? 1e-3 : 2e-2);
    EXPECT_EQ(result(3, {2}).parameters_sha256, two.parameters_sha256);
    EXPECT_EQ(result(3, {}).parameters_sha256, two.parameters_sha256);
  }
}

TEST(CudaShards, ABertTrainsInThem) {
  WEIR_NEEDS_BF16();
  expect_to_train_in_shards(TinyModel(tiny_bert(0.1, "", 2, 37)));
}

TEST(CudaShards, AVitTrainsInThem) {
  WEIR_NEEDS_BF16();
  expect_to_train_in_shards(TinyModel(tiny_vit(0.1, 2)));
}

TEST(CudaShards, AResNetTrainsInThem) {
  WEIR_NEEDS_BF16();
  expect_to_train_in_shards(TinyModel(tiny_resnet()));
}

// As the CPU's test of that name: weights that do not move give every stage of ZeRO the same
// values, whose sums alone have another order; two micro-batches a replica are added up.
TEST(CudaShards, RunningStatisticsAreThoseOfWholeGradients) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model(tiny_resnet());
  const auto statistics = [&](int zero) {
    RunOptions options = shard_steps(2);
    options.save = std::filesystem::temp_directory_path() /
                   fmt::format("weir-shard-statistics-{}-{}", ::getpid(), zero);
    static_cast<void>(trained_shards(model, unmoved(sharded(model, zero, 2, {2})), options));
    auto found = running_statistics(*options.save);
    std::filesystem::remove(*options.save);
    return found;
  };
  const auto whole = statistics(1);
  ASSERT_GT(whole.size(), 2U);
  for (const int zero : {2, 3}) {
    const auto found = statistics(zero);
    ASSERT_EQ(found.size(), whole.size());
    for (const auto& [name, values] : whole) {
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(found.at(name)[i], values[i], 1e-5) << zero << " " << name << " " << i;
    }
  }
}

void expect_the_bits_of_what_is_kept(const TinyModel& model, Dtype dtype, AttentionKind attention) {
  const auto bits = [&](const char* recompute, std::vector<int> boundaries, const char* schedule) {
    Plan plan = model.plan(std::move(boundaries), 2, schedule);
    plan.dtype = dtype;
    plan.attention = attention;
    plan.slots = 0;
    plan.recompute = parse_recompute_word(recompute).value();
    return run(model.load(plan), shard_steps(2), {{BackendKind::cuda, cuda_backends()}})
        .parameters_sha256;
  };
  SCOPED_TRACE(fmt::format("{} {}", to_string(dtype), to_string(attention)));
  const std::string expected = bits("none", {}, "1f1b");
  EXPECT_EQ(bits("selective", {}, "1f1b"), expected);
  EXPECT_EQ(bits("selective", {2}, "zb-h1"), expected);
  EXPECT_EQ(bits("full:2", {}, "1f1b"), expected);
  EXPECT_EQ(bits("full:2", {1}, "zb-h1"), expected);
}

// What is dropped of an attention's core is made again by the same kernels, and several blocks at a
// time as one is: fused and apart, with dropout and with shared keys, split and whole backwards.
TEST(CudaRebuilds, CoresAndSeveralBlocksChangeNoBit) {
  WEIR_NEEDS_BF16();
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
    const TinyModel model = dtype == Dtype::fp32 ? TinyModel(true, 0.1, 37, 2)
                                                 : TinyModel(tiny_llama("qwen3", "", 2, 37));
    for (const AttentionKind attention : {AttentionKind::fused, AttentionKind::unfused})
      expect_the_bits_of_what_is_kept(model, dtype, attention);
  }
}

TEST(CudaRebuilds, ThoseOfABertChangeNoBit) {
  WEIR_NEEDS_BF16();
  for (const AttentionKind attention : {AttentionKind::fused, AttentionKind::unfused}) {
    expect_the_bits_of_what_is_kept(TinyModel(tiny_bert(0.1, "", 2, 37)), Dtype::fp32, attention);
    expect_the_bits_of_what_is_kept(TinyModel(tiny_bert(0.0, "", 2, 37)), Dtype::bf16, attention);
  }
}

}  // namespace
}  // namespace weir::shards_test
