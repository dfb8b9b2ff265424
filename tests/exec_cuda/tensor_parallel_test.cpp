// Devices that divide layers, their messages through the host as between processes over MPI: the
// processes are threads here. They train as one that has layers whole, to the last bit the same for
// every K, partition and schedule; and what is sent is what the forecast prices.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "costmodel/links/parallel.hpp"
#include "exec/cuda/cuda_backend.hpp"
#include "exec/rank/stage.hpp"
#include "exec/rank/tensor_shards.hpp"
#include "exec/weights/safetensors.hpp"
#include "plan/job/summary.hpp"
#include "tests/exec/copied_transport.hpp"
#include "tests/exec/thread_processes.hpp"
#include "tests/exec/tiny.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::tensor_parallel_test {
namespace {

Backends on_cuda() { return {{BackendKind::cuda, cuda_backends()}}; }

RunOptions on_cuda_for(int steps) {
  RunOptions options;
  options.backend = BackendKind::cuda;
  options.steps = steps;
  options.warmup_steps = 0;
  options.trace = false;  // the tests' transport keeps no times
  return options;
}

RunResult trained_on_cuda(const TinyModel& model, const Plan& plan, const RunOptions& options) {
  if (plan.tp * plan.dp == 1) return run(model.load(plan), options, on_cuda());
  const ThreadsResult found = run_as_threads(
      model.load(plan), options, [](int) { return on_cuda(); }, copied_links());
  for (const auto& [kind, line] : found.endings) ADD_FAILURE() << line;
  return found.leaders;
}

Plan divided_plan(const TinyModel& model, int tp, std::vector<int> boundaries = {},
                  const char* schedule = "1f1b") {
  Plan plan = model.plan(std::move(boundaries), 2, schedule);
  plan.tp = tp;
  plan.slots = 0;
  plan.optimizer.learning_rate = 1e-3;
  return plan;
}

// Dropout everywhere: of divided heads and rows the masks are those of the whole.
TinyConfig gpt2_with_dropout() {
  return {R"({"model_type":"gpt2","n_embd":16,"n_head":4,"n_layer":2,"vocab_size":37,)"
          R"("n_positions":8,"initializer_range":0.2,"resid_pdrop":0.1,"attn_pdrop":0.1,)"
          R"("embd_pdrop":0.1})"};
}

void expect_losses_near(const RunResult& found, const RunResult& expected, double tolerance) {
  ASSERT_EQ(found.steps.size(), expected.steps.size());
  for (std::size_t i = 0; i < expected.steps.size(); ++i)
    EXPECT_NEAR(found.steps[i].loss, expected.steps[i].loss, tolerance) << i;
}

// Losses of fp32 carry 7 digits and agree to 5; those of bf16, whose partial sums are rounded to 8
// bits, to 2 %.
void expect_divided_as_whole(const TinyModel& model, int tp, AttentionKind attention,
                             Dtype dtype = Dtype::fp32) {
  constexpr int kSteps = 2;
  const auto formed = [&](Plan plan) {
    plan.attention = attention;
    plan.dtype = dtype;
    return plan;
  };
  const RunResult whole =
      trained_on_cuda(model, formed(divided_plan(model, 1)), on_cuda_for(kSteps));
  for (const bool sequence_parallel : {false, true}) {
    std::string bits;
    for (Plan plan : {divided_plan(model, tp), divided_plan(model, tp, {2}),
                      divided_plan(model, tp, {1, 3}, "zb-h1")}) {
      plan = formed(plan);
      plan.sequence_parallel = sequence_parallel;
      if (plan.pp == 2) plan.recompute.mode = RecomputeMode::full;
      SCOPED_TRACE(summary(plan));
      const RunResult result = trained_on_cuda(model, plan, on_cuda_for(kSteps));
      expect_losses_near(result, whole,
                         dtype == Dtype::bf16 ? 0.02 * whole.steps.front().loss : 1e-5);
      if (bits.empty()) bits = result.parameters_sha256;
      EXPECT_EQ(result.parameters_sha256, bits);
    }
  }
}

TEST(CudaTensorParallel, Gpt2TrainsAsOneDevice) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model(gpt2_with_dropout());
  expect_divided_as_whole(model, 2, AttentionKind::fused);
  expect_divided_as_whole(model, 2, AttentionKind::unfused);
}

// 37 tokens are 10, 10, 10 and 7 on four devices.
TEST(CudaTensorParallel, FourDevicesTrainAsOne) {
  WEIR_NEEDS_DEVICE();
  expect_divided_as_whole(TinyModel(gpt2_with_dropout()), 4, AttentionKind::fused);
}

TEST(CudaTensorParallel, LlamasFamilyTrainsAsOneDevice) {
  WEIR_NEEDS_DEVICE();
  expect_divided_as_whole(TinyModel(tiny_llama("llama", R"(,"tie_word_embeddings":true)", 2, 37)),
                          2, AttentionKind::fused);
  expect_divided_as_whole(TinyModel(tiny_llama("mistral", "", 2, 37)), 2, AttentionKind::unfused);
  expect_divided_as_whole(TinyModel(tiny_llama("qwen2", "", 2, 37)), 2, AttentionKind::fused);
  expect_divided_as_whole(TinyModel(tiny_llama("qwen3", "", 2, 37)), 2, AttentionKind::fused);
}

// A vocabulary of 301 is 151 rows a device, whose logits are padded to 152.
TEST(CudaTensorParallel, Bf16TrainsAsOneDevice) {
  WEIR_NEEDS_BF16();
  expect_divided_as_whole(TinyModel(tiny_llama("qwen3", "", 2, 301)), 2, AttentionKind::fused,
                          Dtype::bf16);
}

// Descent by rate 1 is the gradient itself: of two devices, with their rows divided and without, it
// is that of one, number by number; of biases, that each has, and of gains, of which each finds a
// part, too.
TEST(CudaTensorParallel, GradientsAreThoseOfOneDevice) {
  WEIR_NEEDS_DEVICE();
  for (const TinyConfig& config : {gpt2_with_dropout(), tiny_llama("qwen3", "", 2, 37)}) {
    const TinyModel model(config);
    const auto after = [&](int tp, int steps, bool sequence_parallel) {
      Plan plan = divided_plan(model, tp);
      plan.sequence_parallel = sequence_parallel;
      plan.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 1};
      RunOptions options = on_cuda_for(steps);
      options.save = std::filesystem::temp_directory_path() /
                     ("weir-cuda-divided-" + std::to_string(::getpid()) + ".safetensors");
      static_cast<void>(trained_on_cuda(model, plan, options));
      const SafetensorsFile file(*options.save);
      std::map<std::string, std::vector<float>> tensors;
      for (const auto& [name, tensor] : file.tensors()) tensors[name] = to_floats(tensor, name);
      std::filesystem::remove(*options.save);
      return tensors;
    };
    const auto before = after(1, 0, false), one = after(1, 1, false);
    for (const bool sequence_parallel : {false, true}) {
      const auto two = after(2, 1, sequence_parallel);
      for (const auto& [name, values] : one) {
        SCOPED_TRACE(name + (sequence_parallel ? ", rows divided" : ""));
        double moved = 0, apart = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          moved = std::max(moved, std::abs(double{values[i]} - before.at(name)[i]));
          apart = std::max(apart, std::abs(double{two.at(name)[i]} - values[i]));
        }
        EXPECT_GT(moved, 1e-4);  // there is a gradient to speak of
        EXPECT_LT(apart, 1e-6);
      }
    }
  }
}

// The norm is of undivided gradients, and one set of bits for every K; with replicas, and with the
// optimizer's state divided, it is the same norm.
TEST(CudaTensorParallel, ClipsByTheNormOfTheWhole) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model(tiny_llama("qwen3", "", 2, 37));
  const auto clipped = [&](int tp, std::vector<int> boundaries = {}) {
    Plan plan = divided_plan(model, tp, std::move(boundaries));
    plan.sequence_parallel = tp > 1;
    plan.optimizer.clip_norm = 0.05;  // below the tiny model's norm
    return plan;
  };
  const RunResult one = trained_on_cuda(model, clipped(1), on_cuda_for(2));
  const RunResult two = trained_on_cuda(model, clipped(2), on_cuda_for(2));
  EXPECT_EQ(trained_on_cuda(model, clipped(2, {2}), on_cuda_for(2)).parameters_sha256,
            two.parameters_sha256);
  Plan shared = clipped(2);
  shared.dp = 2;
  shared.microbatches = 1;
  const RunResult replicas = trained_on_cuda(model, shared, on_cuda_for(2));
  shared.zero = 1;
  const RunResult zero = trained_on_cuda(model, shared, on_cuda_for(2));
  for (std::size_t i = 0; i < 2; ++i) {
    const double norm = one.steps[i].gradient_norm.value();
    EXPECT_GT(norm, 0.05);
    for (const RunResult* other : {&two, &replicas, &zero})
      EXPECT_NEAR(other->steps[i].gradient_norm.value(), norm, 1e-5 * norm) << i;
  }
}

// Counts what a device sends; what comes in stays as it is.
class CountingLinks : public TensorLinks {
 public:
  void exchange(std::span<const Part> sends, std::span<const Part>) override {
    ++rounds;
    for (const Part& part : sends) bytes += part.tensor.bytes;
  }
  int rounds = 0;
  std::int64_t bytes = 0;
};

class FirstOfTwo : public TensorGroup {
 public:
  [[nodiscard]] int place() const override { return 0; }
  [[nodiscard]] int count() const override { return 2; }
  void sum(std::span<float>) override {}
  void maximum(std::span<float>) override {}
  void sum_own(std::span<const float>, std::span<float>) override {}
  void gather(std::span<const float>, std::span<float>) override {}
};

// Two devices send each other, in an all-reduce of n bytes, two messages of n / 2: over a link of
// 1 B/s it takes n seconds; over one whose messages take a second whatever their size, two. A
// reduce-scatter and an all-gather are one of them each.
void expect_cuda_sends_as_priced(const TinyModel& model, bool sequence_parallel, Dtype dtype) {
  Plan plan = divided_plan(model, 2);
  const int layers = static_cast<int>(model.load(plan).model.layers.size());
  std::vector<int> boundaries;
  for (int l = 1; l < layers; ++l) boundaries.push_back(l);
  plan = divided_plan(model, 2, boundaries, "gpipe");
  plan.sequence_parallel = sequence_parallel;
  plan.dtype = dtype;
  const ResolvedPlan loaded = model.load(plan);
  const ResolvedPlan whole = undivided(loaded);
  const StateSource state = shards_of(whole, seeded_state(whole), {0, 2});
  FirstOfTwo group;
  for (int l = 0; l < layers; ++l) {
    CountingLinks links;
    const auto backend =
        cuda_backends()({.dtype = dtype, .group = &group, .divides_rows = sequence_parallel});
    Arena arena(*backend);
    backend->prepare(device_layers(loaded, {l, l + 1}), plan.micro_batch_size, plan.seq_length);
    Tensor scratch = arena.allocate(backend->scratch_bytes());
    backend->use_scratch(scratch);
    backend->connect(links);
    StageWorker worker(loaded, Stage{l}, state, *backend, arena);
    HostMemory tokens = backend->host_memory(2 * 9 * 4);
    std::fill_n(reinterpret_cast<std::int32_t*>(tokens.get()), 2 * 9, 3);
    HostMemory loss = backend->host_memory(sizeof(double));
    const Pass pass{0, 0, reinterpret_cast<std::int32_t*>(tokens.get()),
                    reinterpret_cast<double*>(loss.get())};
    const StagePart& stage = loaded.stage(Stage{l});
    const auto taken = [&](std::int64_t bytes) {
      const Tensor tensor = arena.allocate(bytes * plan.micro_batch_size);
      backend->put_zeros(tensor);
      return tensor;
    };
    const Layer& layer = loaded.model.layers[static_cast<std::size_t>(l)];
    const auto expect_priced = [&](ActionKind kind) {
      const auto price = [&](const Link& link) {
        return tensor_traffic(layer, plan, link, {}, WeightGathers::counted)[kind].count();
      };
      EXPECT_EQ(static_cast<double>(links.bytes), price({.bandwidth = BytesPerSecond(1)}))
          << layer.name;
      EXPECT_EQ(links.rounds, price({.latency = Seconds(1)})) << layer.name;
      links = {};
    };
    Tensor output = worker.forward(pass, l == 0 ? Tensor{} : taken(stage.input_bytes),
                                   StageWorker::Keep::everything);
    expect_priced(ActionKind::F);
    arena.release(output);
    Tensor gradient =
        worker.backward_input(pass, l + 1 == layers ? Tensor{} : taken(stage.output_bytes));
    expect_priced(ActionKind::I);
    arena.release(gradient);
    worker.backward_weight(pass);
    expect_priced(ActionKind::W);
    backend->finish();
    arena.release(scratch);
  }
}

TEST(CudaTensorParallel, SendsWhatTheForecastPrices) {
  WEIR_NEEDS_BF16();
  for (const TinyConfig& config : {gpt2_with_dropout(), tiny_llama("llama", "", 1, 37)}) {
    for (const bool sequence_parallel : {false, true}) {
      for (const Dtype dtype : {Dtype::fp32, Dtype::bf16})
        expect_cuda_sends_as_priced(TinyModel(config), sequence_parallel, dtype);
    }
  }
}

}  // namespace
}  // namespace weir::tensor_parallel_test
