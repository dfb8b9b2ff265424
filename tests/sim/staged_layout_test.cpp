// Layouts inside the stages of a pipeline, by hand and against the closed form of 1F1B.
// SPDX-License-Identifier: Apache-2.0
#include "sim/layouts/staged_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/plan/written_network.hpp"

namespace weir::staged_layout_test {
namespace {

using layout::Network;
using layout::NetworkLayout;
using testing::HasSubstr;
using Lines = std::vector<std::string>;

// Four equal layers of one product, 8 x 16 by 16 x 16: 2048 multiply-adds each of F, I and W.
Network chain() {
  Network network{"chain", {{"batch", "b", 8}, {"io", "i", 16}, {"out", "o", 16}}, {}};
  add_layer(network, "layer",
            {"x[batch, io]", "weight w[io, out]", "u[batch, out]", "y[batch, io]"},
            {"u = x w", "y = move(u)"}, {}, 4);
  return network;
}

// 4096 FLOP/s: a product of 2048 multiply-adds takes a second. Links take no time.
Cluster machine() {
  Cluster cluster;
  cluster.nodes = 2;
  cluster.devices_per_node = 4;
  cluster.device.peak_fp32 = FlopsPerSecond(4096);
  return cluster;
}

StagedJob job(int stages, int micro_batches) {
  StagedJob one;
  one.job.dtype = Dtype::fp32;
  one.job.micro_batches = micro_batches;
  one.stages = stages;
  return one;
}

// Two stages of two layers, two micro-batches, 1F1B: F takes 2 s and B 4. The first stage's first
// F, the second's F, B, F and B, the first's last B: 2 + 2 (2 + 4) + 4.
TEST(StagedLayouts, ByHand) {
  const Network network = chain();
  const NetworkLayout whole{"", {}, {0, 0, 0}};
  const StagedLayout staged = staged_layout(network, whole, job(2, 2), machine());
  ASSERT_EQ(staged.stages.size(), 2U);
  EXPECT_EQ(staged.stages[0].layers, 2);
  EXPECT_EQ(staged.stages[1].first, 2);
  EXPECT_EQ(staged.stages[1].passes[0], Seconds(2));
  EXPECT_EQ(staged.stages[1].passes[1], Seconds(2));
  EXPECT_EQ(staged.stages[1].passes[2], Seconds(2));
  // What leaves a stage is a micro-batch's output, 8 x 16 numbers of 4 bytes.
  EXPECT_EQ(staged.stages[0].message, Bytes(8 * 16 * 4));
  // Of 1F1B the first of two stages keeps two micro-batches, the last one.
  EXPECT_EQ(staged.stages[0].in_flight, 2);
  EXPECT_EQ(staged.stages[1].in_flight, 1);
  // Two layers' weights with their gradients and AdamW's moments, 16 bytes each; and what two
  // layers keep, their inputs.
  EXPECT_EQ(staged.stages[1].state, Bytes(2 * 256 * 16));
  EXPECT_EQ(staged.stages[1].kept, Bytes(2 * 128 * 4));
  EXPECT_EQ(staged.memory(), staged.stages[0].memory());
  EXPECT_NEAR(staged.step_time.count(), 18, 1e-6);
  EXPECT_NEAR(staged.bubble_fraction, 1 - 12.0 / 18, 1e-9);
}

// Equal stages, no message, no update: 1F1B and GPipe take (M + K - 1) (F + B), Huang et al. 2019;
// split over two devices each half of that.
TEST(StagedLayouts, IsTheClosedForm) {
  const Network network = chain();
  for (const char* schedule : {"1f1b", "gpipe"}) {
    for (const int micro_batches : {1, 4, 8}) {
      StagedJob of = job(2, micro_batches);
      of.schedule = schedule;
      const NetworkLayout whole{"", {}, {0, 0, 0}}, rows{"", {{"d", "d", 2}}, {1, 0, 0}};
      const StagedLayout one = staged_layout(network, whole, of, machine());
      const StagedLayout two = staged_layout(network, rows, of, machine());
      const double each = one.stages[1].passes[0].count() + one.stages[1].passes[1].count() +
                          one.stages[1].passes[2].count();
      EXPECT_NEAR(one.step_time.count(), (micro_batches + 1) * each, 1e-6);
      EXPECT_NEAR(two.step_time.count(), one.step_time.count() / 2, 1e-6);
    }
  }
}

// Exchanges stand in the stage that makes them: hidden units split over m, y is summed in F and x's
// gradient in I, each of 4 x 8 x 4 = 128 bytes, which between two take 128 s at 1 byte/s. Once a
// step nothing: both have the same replica. With batch split instead, gradients alone, in fp32:
// 2 x 8 x 8 x 4 = 512 bytes.
TEST(StagedLayouts, ExchangesByStage) {
  Network network{"mlp", {{"batch", "b", 4}, {"io", "i", 8}, {"ffn", "f", 8}}, {}};
  add_layer(
      network, "layer",
      {"x[batch, io]", "weight w[io, ffn]", "u[batch, ffn]", "weight v[ffn, io]", "y[batch, io]"},
      {"u = x w", "y = u v"}, {}, 2);
  Cluster cluster = machine();
  cluster.intra.bandwidth = BytesPerSecond(1);
  const NetworkLayout split{"", {{"m", "m", 2}}, {0, 0, 1}},
      replicas{"", {{"d", "d", 2}}, {1, 0, 0}};
  const StagedLayout one = staged_layout(network, split, job(2, 1), cluster);
  const StagedLayout other = staged_layout(network, replicas, job(2, 1), cluster);
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_NEAR(one.stages[s].exchanges.count(), 256, 1e-6);
    EXPECT_EQ(one.stages[s].step.count(), 0);
    EXPECT_EQ(other.stages[s].exchanges.count(), 0);
    EXPECT_NEAR(other.stages[s].step.count(), 512, 1e-6);
  }
  // A device sends its block to the one at its place: all of it, or its half.
  EXPECT_EQ(one.stages[0].message, Bytes(128));
  EXPECT_EQ(other.stages[0].message, Bytes(64));
  // A pass's products beside the exchanges: 4 x 8 x 4 multiply-adds of two products, at 4096
  // FLOP/s.
  EXPECT_NEAR(one.stages[0].passes[0].count(), 128 + 2.0 * 2 * 128 / 4096, 1e-6);
}

// A head that is tied to the embedding: its stage has a copy, and both sum their gradients, 12 x 8
// numbers of 4 bytes between two, at 1 byte/s.
TEST(StagedLayouts, TiedWeights) {
  Network network{"tied", {{"batch", "b", 4}, {"io", "i", 8}, {"vocab", "V", 12}}, {}};
  add_layer(network, "table", {"weight table[vocab, io]", "x[batch, io]"},
            {"x = gather(table) over vocab"});
  add_layer(network, "head",
            {"x[batch, io]", "tied table[vocab, io]", "logits[batch, vocab]", "losses[batch]"},
            {"logits = x table", "losses = loss(logits) over vocab"});
  Cluster cluster = machine();
  cluster.intra.bandwidth = BytesPerSecond(1);
  const StagedLayout staged = staged_layout(network, {"", {}, {0, 0, 0}}, job(2, 1), cluster);
  for (const LayoutStage& stage : staged.stages) {
    EXPECT_NEAR(stage.step.count(), 12 * 8 * 4, 1e-6);
    EXPECT_EQ(stage.state, Bytes(12 * 8 * 16));
  }
}

Network tied(std::int64_t middle) {
  Network network{"tied", {{"batch", "b", 4}, {"io", "i", 8}, {"vocab", "V", 12}}, {}};
  add_layer(network, "table", {"weight table[vocab, io]", "x[batch, io]"},
            {"x = gather(table) over vocab"});
  if (middle > 0) {
    add_layer(network, "middle",
              {"x[batch, io]", "tied table[vocab, io]", "u[batch, vocab]", "a[batch, vocab]",
               "weight w[vocab, io]", "y[batch, io]"},
              {"u = x table", "a = tanh(u)", "y = a w"}, {}, middle);
  }
  add_layer(network, "head",
            {"x[batch, io]", "tied table[vocab, io]", "logits[batch, vocab]", "losses[batch]"},
            {"logits = x table", "losses = loss(logits) over vocab"});
  return network;
}

// With two replicas in each stage, at 1 byte/s, of 96 weights: both stages reduce 96 gradients of 4
// bytes among their replicas, which takes 384 s of two, and sum them with each other, as long.
// Where replicas share what the optimizer keeps they reduce-scatter, 192 s, sum their halves
// between the stages, 192 s, and gather the new weights, 192 s; AdamW's 8 bytes are halved, and
// where they share gradients too those.
TEST(StagedLayouts, ACopyOfATiedWeightIsAsItsOwnersIs) {
  const Network network = tied(0);
  Cluster cluster = machine();
  cluster.intra.bandwidth = BytesPerSecond(1);
  NetworkLayout replicas{"", {{"d", "d", 2}}, {1, 0, 0}};
  const StagedLayout whole = staged_layout(network, replicas, job(2, 1), cluster);
  replicas.optimizer = 1;
  const StagedLayout first = staged_layout(network, replicas, job(2, 1), cluster);
  replicas.gradients = 1;
  const StagedLayout second = staged_layout(network, replicas, job(2, 1), cluster);
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_NEAR(whole.stages[s].step.count(), 384 + 384, 1e-6) << s;
    EXPECT_EQ(whole.stages[s].state, Bytes(96 * 16)) << s;
    EXPECT_NEAR(first.stages[s].step.count(), 192 + 192 + 192, 1e-6) << s;
    EXPECT_EQ(first.stages[s].state, Bytes(96 * 8 + 48 * 8)) << s;
    // Each micro-batch's W scatters its own.
    EXPECT_NEAR(second.stages[s].step.count(), 192 + 192, 1e-6) << s;
    EXPECT_NEAR(second.stages[s].passes[2].count() - first.stages[s].passes[2].count(), 192, 1e-6)
        << s;
    EXPECT_EQ(second.stages[s].state, Bytes(96 * 4 + 48 * 12)) << s;
  }
}

// A layer that is repeated reads the table in each stage that has one of it, and two layers of one
// stage read one copy: of three stages each has 96 numbers of it and all three sum their gradients
// at once, 2 x 2/3 x 384 = 512 s. The middle's own weights are 96 numbers a repetition.
TEST(StagedLayouts, ATiedWeightOfSeveralStages) {
  Cluster cluster = machine();
  cluster.nodes = 1;
  cluster.intra.bandwidth = BytesPerSecond(1);
  const StagedLayout staged = staged_layout(tied(4), {"", {}, {0, 0, 0}}, job(3, 1), cluster);
  std::int64_t layers = 0;
  for (const LayoutStage& stage : staged.stages) {
    std::int64_t middle = 0;  // layers 1 to 4
    for (int l = stage.first; l < stage.first + stage.layers; ++l) middle += l >= 1 && l <= 4;
    EXPECT_EQ(stage.state, Bytes((1 + middle) * 96 * 16)) << stage.first;
    EXPECT_NEAR(stage.step.count(), 512, 1e-6) << stage.first;
    layers += middle;
  }
  EXPECT_EQ(layers, 4);
}

TEST(StagedLayouts, WhatCannotBeCut) {
  const Network network = chain();
  EXPECT_EQ(not_staged(network, job(4, 1)), std::nullopt);
  EXPECT_THAT(not_staged(network, job(5, 1)).value_or(""), HasSubstr("fewer than 5 stages"));
  StagedJob other = job(2, 2);
  other.schedule = "chimera";
  EXPECT_THAT(not_staged(network, other).value_or(""), HasSubstr("one stage a rank"));
  // With one stage a rank and whole sequences they would be other schedules under their names.
  for (const char* name : {"interleaved-1f1b", "interleaved-zb", "looped-bfs", "hanayo"}) {
    other.schedule = name;
    EXPECT_THAT(not_staged(network, other).value_or(""),
                HasSubstr(std::string(name) + " places several stages on a rank"));
  }
  other.schedule = "seq1f1b";
  EXPECT_THAT(not_staged(network, other).value_or(""), HasSubstr("seq1f1b slices sequences"));
  other.schedule = "vocab-1";
  EXPECT_THAT(not_staged(network, other).value_or(""), HasSubstr("divides the vocabulary"));
  Network branches = chain();
  add_layer(branches, "join", {"a[batch, io]", "b[batch, io]", "y[batch, io]"}, {"y = add(a b)"},
            Lines{"layer", "data"});
  EXPECT_THAT(not_staged(branches, job(2, 1)).value_or(""),
              HasSubstr("layer join does not read the layer before it alone"));
}

}  // namespace
}  // namespace weir::staged_layout_test
