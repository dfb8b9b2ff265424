// What blocks that predict further tokens hold, compute and send, by hand.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "costmodel/layers/kernels.hpp"
#include "costmodel/layers/layer_math.hpp"
#include "costmodel/links/parallel.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "plan/job/stack_part.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir::prediction_test {
namespace {

// A table of 1024 rows, two blocks, a norm and a head of its own, h = 128, f = 512, bf16. A block
// has 12 h^2 + 13 h = 198,272 numbers; one that predicts 2 h^2 + 3 x 2 h = 33,536 more, and reads
// the model's table.
constexpr std::int64_t kWide = 128, kUsual = 12 * kWide * kWide + 13 * kWide;
constexpr std::int64_t kRows = 1024 * kWide, kPredicting = kUsual + 2 * kWide * kWide + 6 * kWide;
constexpr std::int64_t kTokens = 64 * kWide * 2;  // bytes of 64 tokens

Model predicting_model(int layers) {
  const TransformerShape block{
      .hidden = kWide, .heads = 4, .kv_heads = 4, .head_dim = 32, .ffn = 512, .rotary = true};
  Model model;
  model.layers = {{"embedding", EmbeddingShape{.vocabulary = 1024, .hidden = kWide}, ""},
                  {"b0", block, ""},
                  {"b1", block, ""},
                  {"norm", NormShape{.hidden = kWide}, ""},
                  {"head", HeadShape{.vocabulary = 1024, .hidden = kWide}, ""}};
  set_prediction(model, layers);
  return model;
}
ResolvedPlan predicting_plan(int layers, std::vector<int> boundaries) {
  Plan plan;
  plan.seq_length = 64;
  plan.dtype = Dtype::bf16;
  plan.prediction_layers = layers;
  plan.pp = static_cast<int>(boundaries.size()) + 1;
  plan.boundaries = std::move(boundaries);
  return derive(plan, predicting_model(layers),
                std::get<Schedule>(make_schedule("gpipe", {plan.pp, 1, 1})));
}
BytesByKind state_of(const ResolvedPlan& r, int stage) {
  return StageMemory(r.plan, *r.part, r.stages[static_cast<std::size_t>(stage)], Allocator::arena)
      .parameters();
}
std::int64_t saved_by(const Layer& layer) {
  std::int64_t bytes = 0;
  for (const KeptTensor& kept : layer_tensors(layer, 64, Dtype::bf16).saved)
    bytes += kept.bytes_per_sample;
  return bytes;
}

// On one rank the table is there once, with one state; a gradient each use has its own (our
// executor's way).
TEST(Prediction, HasTheTableOnce) {
  const BytesByKind state = state_of(predicting_plan(1, {}), 0);
  const std::int64_t numbers = 2 * kRows + 2 * kUsual + 2 * kWide + kPredicting;
  EXPECT_EQ(state[MemoryKind::weights], 2 * numbers);
  EXPECT_EQ(state[MemoryKind::optimizer_state], 12 * numbers);
  EXPECT_EQ(state[MemoryKind::gradients], 4 * (numbers + kRows));
}

// On the last of two it is there again, and what both make of its gradient is added up.
TEST(Prediction, BringsTheTableToTheLastStage) {
  const ResolvedPlan r = predicting_plan(1, {3});
  EXPECT_EQ(state_of(r, 1)[MemoryKind::weights], 2 * (2 * kWide + kPredicting + 2 * kRows));
  ASSERT_EQ(r.ties.size(), 1U);
  EXPECT_EQ(r.ties[0].parameters, kRows);
  EXPECT_EQ(r.ties[0].holders, (std::vector<Stage>{Stage{0}, Stage{1}}));
  EXPECT_TRUE(predicting_plan(0, {3}).ties.empty());
}

// Of 64 tokens beside what a block keeps: the embedding before its norm, both norms' results as the
// projection reads them, what that makes, what the block gave before the last norm, and statistics
// of three norms, 2 x 64 x 4 each. The second keeps the first's result, too, not all that came in:
// that has two tokens' worth, of which it hands on three.
TEST(Prediction, KeepsWhatItsNormsAndItsProjectionRead) {
  const Model model = predicting_model(2);
  const Layer &block = model.layers[2], &first = model.layers[4], &second = model.layers[5];
  EXPECT_EQ(saved_by(first) - saved_by(block), 5 * kTokens + 3 * 512);
  EXPECT_EQ(saved_by(second) - saved_by(block), 6 * kTokens + 3 * 512);
  EXPECT_TRUE(layer_tensors(first, 64, Dtype::bf16).saves_input);
  EXPECT_FALSE(layer_tensors(second, 64, Dtype::bf16).saves_input);
  EXPECT_EQ(layer_tensors(first, 64, Dtype::bf16).output_bytes_per_sample, 2 * kTokens);
  EXPECT_EQ(layer_tensors(second, 64, Dtype::bf16).output_bytes_per_sample, 3 * kTokens);
}

// Three losses have the logits of 64 tokens each. Under a stack that keeps 4 bytes of each logit
// and has 8 of the one loss it is at: 4 x 3 of them, and 4 more of one.
TEST(Prediction, HasALossForEachToken) {
  const Model model = predicting_model(2);
  const std::int64_t logits = 64 * 1024;
  EXPECT_EQ(saved_by(model.layers.back()), 3 * logits * 2);
  Stack stack;
  stack.own_tensors = false;
  stack.memory.logits_kept = 4;
  stack.memory.logits_forward = 8;
  const ModelPart part = stack_part(model, 64, Dtype::bf16, {}, stack);
  const LayerTensors& head = part.layer(part.size() - 1).tensors;
  EXPECT_EQ(head.saved.back().bytes_per_sample, 3 * logits * 4);
  EXPECT_EQ(head.workspace_f_bytes_per_sample, logits * 4);
  // A stack's rules are of the block; what is in front of it is kept all the same.
  EXPECT_EQ(part.layer(4).tensors.saved.size(), 5U);
}

// The projection has 2 x 64 x 2 h^2 FLOPs; the head as many again as it had.
TEST(Prediction, Computes) {
  const Model one = predicting_model(1), none = predicting_model(0);
  EXPECT_EQ(forward_flops(one.layers[4], 64).count() - forward_flops(one.layers[2], 64).count(),
            2.0 * 64 * 2 * kWide * kWide);
  EXPECT_EQ(forward_flops(one.layers.back(), 64).count(),
            2 * forward_flops(none.layers.back(), 64).count());
}

// Of a device whose every kernel takes a floor of 1 us: beside a block's, forward a look-up, two
// norms, their copy side by side, the product, the copy for the head and a norm; backward the same
// without the look-up, whose gradient is W's with the product's.
TEST(Prediction, LaunchesItsKernels) {
  Device device;
  device.peak_bf16 = FlopsPerSecond(1e18);
  device.memory_bandwidth = BytesPerSecond(1e18);
  device.multiprocessors = 100;
  device.kernels = KernelModel{.tile_rows = 128,
                               .tile_columns = 128,
                               .products = {.efficiency = 1},
                               .bandwidth_efficiency = 1,
                               .floor = Seconds(1e-6)};
  const Model model = predicting_model(2);
  const auto time = [&](std::size_t layer) {
    return kernel_times(model.layers[layer], 64, Dtype::bf16, {}, 1, device, {}, 0);
  };
  const LayerTime block = time(2), first = time(4), head = time(6);
  EXPECT_NEAR((first.f - block.f).count() * 1e6, 7, 1e-6);
  EXPECT_NEAR((first.i - block.i).count() * 1e6, 6, 1e-6);
  EXPECT_NEAR((first.w - block.w).count() * 1e6, 2, 1e-6);
  EXPECT_NEAR(head.f.count() * 1e6, 3 * 2, 1e-6);  // a product and a loss, three times
}

// n = 512 bytes of 8 tokens of 16 fp32 numbers; 1 byte takes 1 ns, tp = 2: an all-reduce of n 512,
// a gather or a scatter 256. The embedding's sum, a gather of what the projection's two halves
// made; backward the sum of 2 n. With sequence parallelism in F the embedding's scatter, gathers of
// 2 n and of n; in I gathers of n for both, and a scatter of 2 n.
TEST(Prediction, SendsWhatIsInFrontOfIt) {
  const Link link{Seconds(0), BytesPerSecond(1e9)};
  TransformerShape shape{.hidden = 16, .heads = 4, .kv_heads = 4, .head_dim = 4, .ffn = 64};
  Plan plan;
  plan.seq_length = 8;
  plan.tp = 2;
  const auto sent = [&](const LayerShape& of, ActionKind kind) {
    return tensor_traffic({"l", of, ""}, plan, link)[kind].count() * 1e9;
  };
  TransformerShape predicts = shape;
  predicts.prediction = {1, 1024, 16};
  const auto more = [&](ActionKind kind) { return sent(predicts, kind) - sent(shape, kind); };
  EXPECT_NEAR(more(ActionKind::F), 512 + 256, 1e-6);
  EXPECT_NEAR(more(ActionKind::I), 1024, 1e-6);
  HeadShape head{.vocabulary = 1024, .hidden = 16};
  const double one = sent(head, ActionKind::F);
  head.predictions = 1;
  EXPECT_NEAR(sent(head, ActionKind::F), 2 * one, 1e-6);
  plan.sequence_parallel = true;
  EXPECT_NEAR(more(ActionKind::F), 256 + 512 + 256, 1e-6);
  EXPECT_NEAR(more(ActionKind::I), 512 + 512, 1e-6);
}

}  // namespace
}  // namespace weir::prediction_test
