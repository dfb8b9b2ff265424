// Tensor parallelism: devices that divide layers train as one that has them whole, to the last bit
// the same each time; files are undivided; and what is sent is what the forecast prices.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "costmodel/links/parallel.hpp"
#include "costmodel/memory/memory.hpp"
#include "exec/processes/threads/threaded_run.hpp"
#include "exec/rank/stage.hpp"
#include "exec/rank/tensor_shards.hpp"
#include "exec/training/trainable.hpp"
#include "exec/weights/safetensors.hpp"
#include "plan/job/summary.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/mesh_training.hpp"
#include "tests/exec/spans.hpp"

namespace weir::tensor_parallel_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Losses are of fp32, which carries 7 digits; products are summed in T parts. Of runs of 3 steps
// they agree to 5.
constexpr double kTolerance = 1e-5;

Plan divided(const TinyModel& model, int tp, std::vector<int> boundaries,
             const char* schedule = "1f1b") {
  Plan plan = model.plan(std::move(boundaries), 4, schedule);
  plan.tp = tp;
  plan.slots = 0;
  plan.optimizer.learning_rate = 1e-3;
  return plan;
}

// K x T x schedules, with and without sequence parallelism: of one T every pipeline gives the same
// bits, and all T the same losses.
void expect_equal(const TinyModel& model, const std::vector<int>& degrees,
                  AttentionKind attention) {
  Plan one = divided(model, 1, {}, "gpipe");
  one.attention = attention;
  const RunResult whole = trained(model, one, steps(3));
  for (const int tp : degrees) {
    for (const bool sequence_parallel : {false, true}) {
      std::string bits;
      for (Plan plan : {divided(model, tp, {}, "gpipe"), divided(model, tp, {2}),
                        divided(model, tp, {1, 3}, "zb-h1")}) {
        plan.attention = attention;
        plan.sequence_parallel = sequence_parallel;
        if (plan.pp == 2) plan.recompute.mode = RecomputeMode::full;
        SCOPED_TRACE(summary(plan));
        const RunResult result = trained(model, plan, steps(3));
        ASSERT_EQ(result.steps.size(), whole.steps.size());
        for (std::size_t i = 0; i < whole.steps.size(); ++i)
          EXPECT_NEAR(result.steps[i].loss, whole.steps[i].loss, kTolerance) << i;
        if (bits.empty()) bits = result.parameters_sha256;
        EXPECT_EQ(result.parameters_sha256, bits);
      }
    }
  }
}

// Dropout on: each device draws the masks of its heads, and all those of the residual stream. Of 37
// tokens two devices have 19 rows, the last of them padding.
TEST(TensorParallel, AGpt2TrainsAsUndivided) {
  expect_equal(TinyModel(true, 0.1, 37), {2}, AttentionKind::unfused);
  expect_equal(TinyModel(false, 0.1, 37), {2}, AttentionKind::fused);
}

TEST(TensorParallel, ALlamaTrainsAsUndivided) {
  const std::string dropout = R"(,"attention_dropout":0.1)";
  expect_equal(TinyModel(tiny_llama("llama", kLlama3Scaling + dropout, 3, 37)), {2},
               AttentionKind::unfused);
}

// A device finds its heads' part of the gradients of the norms' gains, which all heads share:
// summed over the devices once a step, they stay equal everywhere, or the losses would part.
TEST(TensorParallel, NormsOfHeadsAreTrainedByAllDevices) {
  expect_equal(TinyModel(tiny_llama("qwen3", R"(,"attention_dropout":0.1)", 3, 37)), {2},
               AttentionKind::fused);
}

// Without the sum each device would take its own half for the gradient: of a head norm's gain that
// of its heads, under sequence parallelism of any norm's that of its rows. Descent by rate 1 is the
// gradient itself: of T = 2 it is that of T = 1, number by number.
TEST(TensorParallel, TheGradientOfANormsGainIsThatOfAllHeadsAndRows) {
  const TinyModel model(tiny_llama("qwen3", "", 2, 37));
  const auto gains = [&](int tp, int count, const std::string& name, bool sequence_parallel) {
    Plan plan = divided(model, tp, {2});
    plan.sequence_parallel = sequence_parallel;
    plan.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 1};
    RunOptions options = steps(count);
    options.save = own_folder() / "saved.safetensors";
    static_cast<void>(trained(model, plan, options));
    const SafetensorsFile file(*options.save);
    return to_floats(file.tensors().at(name), name);
  };
  for (const std::string name :
       {"model.layers.1.self_attn.q_norm.weight", "model.layers.0.input_layernorm.weight",
        "model.layers.1.post_attention_layernorm.weight", "model.norm.weight"}) {
    SCOPED_TRACE(name);
    const std::vector<float> before = gains(1, 0, name, false), one = gains(1, 1, name, false);
    for (const bool sequence_parallel : {false, true}) {
      const std::vector<float> two = gains(2, 1, name, sequence_parallel);
      double moved = 0;
      for (std::size_t i = 0; i < one.size(); ++i) {
        moved = std::max(moved, std::abs(static_cast<double>(one[i]) - before[i]));
        EXPECT_NEAR(two[i], one[i], 1e-6) << i;
      }
      EXPECT_GT(moved, 1e-4);  // there is a gradient to speak of
    }
  }
}

// The norm is of undivided gradients: those of parts add up, a norm's gain or a bias that all
// devices have counts once. It is found to the same bits by all of them, for every K, and by
// threads; under ZeRO-1, whose squares are of slices, to 6 digits.
TEST(TensorParallel, ClipsByTheNormOfTheWhole) {
  for (const TinyConfig& config :
       {TinyConfig{R"({"model_type":"gpt2","n_embd":16,"n_head":2,"n_layer":3,"vocab_size":37,)"
                   R"("n_positions":8,"initializer_range":0.2})"},
        tiny_llama("qwen3", "", 3, 37)}) {
    const TinyModel model(config);
    const auto clipped = [&](int tp, std::vector<int> boundaries, const char* schedule) {
      Plan plan = divided(model, tp, std::move(boundaries), schedule);
      plan.optimizer.clip_norm = 0.05;  // below the tiny model's norm
      return plan;
    };
    const RunResult one = trained(model, clipped(1, {2}, "1f1b"), steps(3));
    const Plan plan = clipped(2, {2}, "1f1b");
    const RunResult two = trained(model, plan, steps(3));
    for (std::size_t i = 0; i < 3; ++i) {
      const double norm = one.steps[i].gradient_norm.value();
      EXPECT_GT(norm, 0.05);
      EXPECT_NEAR(two.steps[i].gradient_norm.value(), norm, 1e-5 * norm) << i;
      EXPECT_NEAR(two.steps[i].loss, one.steps[i].loss, kTolerance) << i;
    }
    for (const Plan& other : {clipped(2, {}, "gpipe"), clipped(2, {1, 3}, "zb-h1")})
      EXPECT_EQ(trained(model, other, steps(3)).parameters_sha256, two.parameters_sha256);
    EXPECT_EQ(run_in_one_process(model.load(plan), steps(3), cpu_only()).parameters_sha256,
              two.parameters_sha256);
    Plan rows = plan;
    rows.sequence_parallel = true;
    const RunResult divided_rows = trained(model, rows, steps(3));
    for (std::size_t i = 0; i < 3; ++i) {
      const double norm = one.steps[i].gradient_norm.value();
      EXPECT_NEAR(divided_rows.steps[i].gradient_norm.value(), norm, 1e-5 * norm) << i;
    }
    Plan shared = plan;
    shared.dp = 2;
    shared.microbatches = 2;
    const RunResult replicas = trained(model, shared, steps(3));
    shared.zero = 1;
    const RunResult zero = trained(model, shared, steps(3));
    for (std::size_t i = 0; i < 3; ++i) {
      const double norm = one.steps[i].gradient_norm.value();
      EXPECT_NEAR(replicas.steps[i].gradient_norm.value(), norm, 1e-5 * norm) << i;
      EXPECT_NEAR(zero.steps[i].gradient_norm.value(), norm, 1e-5 * norm) << i;
    }
  }
}

// Four devices, a head each; 37 tokens are 10, 10, 10 and 7.
TEST(TensorParallel, FourDevicesTrainAsOne) {
  const TinyConfig config{
      R"({"model_type":"gpt2","n_embd":16,"n_head":4,"n_layer":3,"vocab_size":37,"n_positions":8,)"
      R"("initializer_range":0.2})"};
  expect_equal(TinyModel(config), {4}, AttentionKind::fused);
}

// Replicas of divided devices, which share the optimizer's work.
TEST(TensorParallel, GoesWithReplicasAndZero) {
  const TinyModel model(true, 0.1, 37);
  const RunResult whole = trained(model, divided(model, 1, {2}), steps(3));
  for (const bool sequence_parallel : {false, true}) {
    Plan plan = divided(model, 2, {2});
    plan.sequence_parallel = sequence_parallel;
    plan.dp = 2;
    plan.microbatches = 2;
    const RunResult unshared = trained(model, plan, steps(3));
    for (std::size_t i = 0; i < whole.steps.size(); ++i)
      EXPECT_NEAR(unshared.steps[i].loss, whole.steps[i].loss, kTolerance) << i;
    plan.zero = 1;
    EXPECT_EQ(trained(model, plan, steps(3)).parameters_sha256, unshared.parameters_sha256);
  }
}

// Files have no T: weights begin and end undivided, to the last bit.
TEST(TensorParallel, FilesAreUndivided) {
  for (const TinyConfig& config : {tiny_llama("llama", R"(,"tie_word_embeddings":true)", 3, 37),
                                   tiny_llama("qwen2", "", 3, 32)}) {
    const TinyModel model(config);
    RunOptions none = steps(0);
    none.save = own_folder() / "saved.safetensors";
    const std::string first = trained(model, divided(model, 1, {2}), none).parameters_sha256;
    RunOptions saved = none;
    saved.init = own_folder() / "saved.safetensors";
    EXPECT_EQ(trained(model, divided(model, 2, {2}), none).parameters_sha256, first);
    EXPECT_EQ(trained(model, divided(model, 2, {1, 3}), saved).parameters_sha256, first);
    EXPECT_EQ(trained(model, divided(model, 1, {}), saved).parameters_sha256, first);
  }
}

TEST(TensorParallel, ACheckpointGoesOnDividedOtherwise) {
  const TinyModel model(true, 0.1, 37);
  const Plan two = divided(model, 2, {2});
  const RunResult whole = trained(model, two, steps(4));
  RunOptions options = steps(2);
  options.output = own_folder() / "out";
  options.checkpoint_every = 2;
  static_cast<void>(trained(model, two, options));
  RunOptions on = steps(2);
  on.resume = own_folder() / "out";
  EXPECT_EQ(trained(model, divided(model, 2, {3}, "gpipe"), on).parameters_sha256,
            whole.parameters_sha256);
  const RunResult one = trained(model, divided(model, 1, {2}), on);
  EXPECT_EQ(one.first_step, 2);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(one.steps[i].loss, whole.steps[2 + i].loss, kTolerance) << i;
}

TEST(TensorParallel, AnEvaluationIsTheUndividedModels) {
  const TinyModel model(true, 0.1, 256);
  RunOptions options = steps(0);
  write_file_atomically(own_folder() / "text", std::string(400, 'a') + std::string(400, 'b'));
  options.evaluate = own_folder() / "text";
  const RunResult one = trained(model, divided(model, 1, {2}), options);
  const RunResult two = trained(model, divided(model, 2, {2}), options);
  EXPECT_NEAR(two.evaluation->loss, one.evaluation->loss, kTolerance);
  EXPECT_EQ(two.evaluation->tokens, one.evaluation->tokens);
}

TEST(TensorParallel, TheForecastOfItsMemoryIsTheArenas) {
  const TinyModel model(true, 0.1, 500);
  for (const bool sequence_parallel : {false, true}) {
    for (const AttentionKind attention : {AttentionKind::unfused, AttentionKind::fused}) {
      Plan plan = divided(model, 2, {}, "gpipe");
      plan.attention = attention;
      plan.sequence_parallel = sequence_parallel;
      const ResolvedPlan loaded = model.load(plan);
      const RunResult result = trained(model, plan, steps(2));
      const std::vector<Span> spans = spans_in_order(loaded.program);
      const auto peaks =
          memory_peaks(loaded, loaded.program, std::span<const Span>(spans), result.scratch);
      const auto measured = static_cast<double>(result.peak_memory.front().count());
      EXPECT_NEAR(static_cast<double>(peaks.front().peak.count()), measured, 0.01 * measured)
          << summary(plan);
    }
  }
}

// Half of a sum is as good as all of it to count by.
class CountingGroup : public TensorGroup {
 public:
  [[nodiscard]] int place() const override { return 0; }
  [[nodiscard]] int count() const override { return 2; }
  void sum(std::span<float> values) override { add(values); }
  void maximum(std::span<float> values) override { add(values); }
  void sum_own(std::span<const float> values, std::span<float> own) override {
    std::ranges::copy(values.first(own.size()), own.begin());
    add_half(own);
  }
  void gather(std::span<const float> own, std::span<float> values) override {
    std::ranges::copy(own, values.begin());
    std::ranges::copy(own, values.begin() + static_cast<std::ptrdiff_t>(own.size()));
    add_half(own);
  }
  // Rounds of messages, and bytes that a device sends in them.
  int rounds = 0;
  std::size_t bytes = 0;

 private:
  void add(std::span<float> all) {
    rounds += 2;
    bytes += all.size_bytes();
  }
  void add_half(std::span<const float> half) {
    ++rounds;
    bytes += half.size_bytes();
  }
};

// Two devices send each other, in an all-reduce of n bytes, two messages of n / 2: over a link of
// 1 B/s it takes n seconds; over one whose messages take a second whatever their size, two. A
// reduce-scatter and an all-gather are one of them each.
void expect_sent_as_priced(const TinyModel& model, bool sequence_parallel) {
  const int layers = static_cast<int>(model.load(divided(model, 2, {})).model.layers.size());
  std::vector<int> boundaries;
  for (int l = 1; l < layers; ++l) boundaries.push_back(l);
  Plan plan = divided(model, 2, boundaries, "gpipe");
  plan.sequence_parallel = sequence_parallel;
  const ResolvedPlan loaded = model.load(plan);
  const ResolvedPlan whole = undivided(loaded);
  const StateSource state = shards_of(whole, seeded_state(whole), {0, 2});
  const std::vector<std::int32_t> tokens(2 * 9, 3);
  for (int l = 0; l < layers; ++l) {
    CountingGroup group;
    const auto backend = make_cpu_backend({.group = &group, .divides_rows = sequence_parallel});
    Arena arena(*backend);
    const std::vector<Layer> own = device_layers(loaded, {l, l + 1});
    backend->prepare(own, loaded.plan.micro_batch_size, loaded.plan.seq_length);
    Tensor scratch = arena.allocate(backend->scratch_bytes());
    backend->use_scratch(scratch);
    StageWorker worker(loaded, Stage{l}, state, *backend, arena);
    double loss = 0;
    const Pass pass{0, 0, tokens.data(), &loss};
    const StagePart& stage = loaded.stage(Stage{l});
    const std::int64_t b = loaded.plan.micro_batch_size;
    const auto filled = [&](std::int64_t bytes) {
      const Tensor tensor = arena.allocate(bytes);
      std::fill_n(tensor.floats(), bytes / 4, 0.1F);
      return tensor;
    };
    const Layer& layer = loaded.model.layers[static_cast<std::size_t>(l)];
    const auto expect_priced = [&](ActionKind kind) {
      const auto price = [&](const Link& link) {
        return tensor_traffic(layer, loaded.plan, link, {}, WeightGathers::counted)[kind].count();
      };
      EXPECT_EQ(static_cast<double>(group.bytes), price({.bandwidth = BytesPerSecond(1)}))
          << layer.name;
      EXPECT_EQ(group.rounds, price({.latency = Seconds(1)})) << layer.name;
      group.rounds = 0;
      group.bytes = 0;
    };
    Tensor output = worker.forward(pass, l == 0 ? Tensor{} : filled(stage.input_bytes * b),
                                   StageWorker::Keep::everything);
    expect_priced(ActionKind::F);
    arena.release(output);
    Tensor gradient =
        worker.backward_input(pass, l + 1 == layers ? Tensor{} : filled(stage.output_bytes * b));
    expect_priced(ActionKind::I);
    arena.release(gradient);
    worker.backward_weight(pass);
    expect_priced(ActionKind::W);
    arena.release(scratch);
  }
}

TEST(TensorParallel, SendsWhatTheForecastPrices) {
  for (const TinyConfig& config :
       {TinyConfig{R"({"model_type":"gpt2","n_embd":16,"n_head":2,"n_layer":1,"vocab_size":37,)"
                   R"("n_positions":8})"},
        tiny_llama("llama", "", 1, 37)}) {
    for (const bool sequence_parallel : {false, true})
      expect_sent_as_priced(TinyModel(config), sequence_parallel);
  }
}

// Queries, keys and values of 4 heads of 6 on 2 keys are 24, 12 and 12 rows of 16; the second of
// two devices has the second half of each. Columns are cut row by row, a vocabulary of 5 into 3
// and 2.
TEST(TensorParallel, ShardsArePiecesOfTheUndividedTensor) {
  TransformerShape block;
  block.hidden = 16;
  block.heads = 4;
  block.kv_heads = 2;
  block.head_dim = 6;
  block.ffn = 20;
  const Layer layer{"block", block};
  EXPECT_FALSE(is_divided(layer, 0));  // a norm's gain
  EXPECT_THAT(
      shard_pieces(layer, 2, {1, 2}),
      ElementsAre(ShardPiece{12 * 16, 0, 12 * 16}, ShardPiece{(24 + 6) * 16, 12 * 16, 6 * 16},
                  ShardPiece{(24 + 12 + 6) * 16, (12 + 6) * 16, 6 * 16}));
  const std::vector<ShardPiece> output = shard_pieces(layer, 4, {1, 2});
  ASSERT_EQ(output.size(), 16U);
  EXPECT_EQ(output[3], (ShardPiece{3 * 24 + 12, 3 * 12, 12}));
  EmbeddingShape table;
  table.vocabulary = 5;
  table.hidden = 4;
  EXPECT_THAT(shard_pieces({"embedding", table}, 0, {1, 2}), ElementsAre(ShardPiece{12, 0, 8}));
  EXPECT_FALSE(is_divided({"embedding", table}, 1));  // positions
}

std::string complaint(const TinyModel& model, const Plan& plan, Replicas replicas = Replicas::many,
                      BackendKind backend = BackendKind::cpu) {
  try {
    require_trainable(model.load(plan), replicas, backend);
  } catch (const MissingComponent& error) {
    return error.what();
  }
  return "";
}

TEST(TensorParallel, WhatIsNotDividedIsRefusedByName) {
  const TinyModel model;
  Plan plan = divided(model, 2, {2});
  EXPECT_EQ(complaint(model, plan), "");
  EXPECT_THAT(complaint(model, plan, Replicas::one),
              HasSubstr("tp = 2; the devices that divide layers run as processes only (mpirun -n 4 "
                        "weir run)"));
  EXPECT_EQ(complaint(model, plan, Replicas::many, BackendKind::cuda), "");
}

// All at once, on either backend.
TEST(TensorParallel, WhatIsNotDividedOfBertAndVitIsRefusedByName) {
  const auto refusals = [](const TinyConfig& config) {
    const TinyModel model(config);
    const Plan plan = divided(model, 2, {2});
    std::string on_cpu = complaint(model, plan);
    EXPECT_EQ(complaint(model, plan, Replicas::many, BackendKind::cuda), on_cpu);
    return on_cpu;
  };
  EXPECT_THAT(refusals(tiny_bert(0)),
              AllOf(HasSubstr("embedding: norms and token types of an embedding are not divided"),
                    HasSubstr("; and block.0: norms behind the sums are not divided"),
                    HasSubstr("; and head: a head with a layer in front is not divided")));
  EXPECT_THAT(refusals(tiny_vit(0)),
              AllOf(HasSubstr("embedding: patches of images are not divided"),
                    HasSubstr("; and head: a head with a layer in front is not divided")));
}

TEST(TensorParallel, ADumpIsRefused) {
  const TinyModel model;
  RunOptions options = steps(1);
  options.dump = own_folder() / "dump.safetensors";
  const ThreadsResult result = run_as_threads(
      model.load(divided(model, 2, {})), options, [](int) { return cpu_only(); }, copied_links());
  ASSERT_EQ(result.endings.size(), 1U);
  EXPECT_THAT(result.endings.begin()->second, HasSubstr("dump"));
}

}  // namespace
}  // namespace weir::tensor_parallel_test
