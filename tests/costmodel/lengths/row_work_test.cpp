// Rows of several sequences: closed forms by hand, and held against rows that are drawn.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/row_work.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "costmodel/layers/layer_key.hpp"
#include "costmodel/table/plan_costs.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir::row_work_test {
namespace {

constexpr std::int64_t kRow = 2048;

// All of 512 tokens in rows of 2048: four squares of 512 are a quarter of one of 2048. A stream of
// them that is cut anywhere loses a third of 512^2 / 2048^2 at its ends: 1/4 - 1/48. One a row, and
// as long: a quarter of the tokens and a sixteenth of the squares, all of it useful.
TEST(RowWork, OfEqualLengths) {
  const RowWork packed = mean_row({{512}, RowsOf::packed}, kRow, 1);
  EXPECT_DOUBLE_EQ(packed.tokens, 1);
  EXPECT_DOUBLE_EQ(packed.squared, 0.25);
  EXPECT_NEAR(mean_row({{512}, RowsOf::cut}, kRow, 1).squared, 0.25 - 1.0 / 48, 1e-12);
  const RowWork longest = mean_row({{512}, RowsOf::longest}, kRow, 4);
  EXPECT_NEAR(longest.tokens, 0.25, 1e-12);
  EXPECT_NEAR(longest.squared, 1.0 / 16, 1e-12);
  EXPECT_NEAR(longest.useful, 0.25, 1e-12);
  EXPECT_EQ(row_spread({{512}, RowsOf::packed}, kRow), 0);
}

// Uniform from next to nothing to a row: E[l] = S/2, E[l^2] = S^2/3, so two thirds of the squares
// where they are packed. Of two the longer has S 2/3 tokens and S^2/2 of the squares; of what it
// computes three quarters are useful.
TEST(RowWork, OfUniformLengths) {
  const SequenceLengths uniform{{1, 2048}, RowsOf::packed};
  EXPECT_NEAR(mean_row(uniform, kRow, 1).squared, 2.0 / 3, 1e-3);
  const RowWork two = mean_row({{1, 2048}, RowsOf::longest}, kRow, 2);
  EXPECT_NEAR(two.tokens, 2.0 / 3, 1e-3);
  EXPECT_NEAR(two.squared, 0.5, 1e-3);
  EXPECT_NEAR(two.useful / two.tokens, 0.75, 1e-3);
  EXPECT_NEAR(two.useful_squared, 1.0 / 3, 1e-3);
}

// Of two the mean largest is 1 / sqrt(pi), of three 3 / (2 sqrt(pi)).
TEST(RowWork, TheLargestOfNormals) {
  EXPECT_EQ(largest_of_normal(1), 0);
  EXPECT_NEAR(largest_of_normal(2), 1 / std::sqrt(std::numbers::pi), 1e-6);
  EXPECT_NEAR(largest_of_normal(3), 1.5 / std::sqrt(std::numbers::pi), 1e-6);
  EXPECT_NEAR(largest_of_normal(8), 1.42360, 1e-5);
}

// Sequences as a distribution says, drawn.
class Drawn {
 public:
  explicit Drawn(SequenceLengths lengths) : lengths_(std::move(lengths)) {}
  double length() {
    const auto last = static_cast<double>(lengths_.quantiles.size() - 1);
    const double place = uniform_(random_) * last;
    const auto below = static_cast<std::size_t>(place);
    const double low = lengths_.quantiles[below], high = lengths_.quantiles[below + 1];
    return low + (place - std::floor(place)) * (high - low);
  }
  // A window of a stream's next tokens: the share of its squares.
  double cut(double row) {
    double left = row, squares = 0;
    while (left > 0) {
      if (rest_ <= 0) rest_ = length();
      const double piece = std::min(left, rest_);
      squares += piece * piece;
      left -= piece;
      rest_ -= piece;
    }
    return squares / (row * row);
  }

 private:
  SequenceLengths lengths_;
  std::mt19937_64 random_{7};
  std::uniform_real_distribution<double> uniform_{0, 1};
  double rest_ = 0;
};

// Skewed lengths in rows that hold some twenty. Tolerances are several standard errors of what is
// drawn: 40,000 rows know the mean share to 1 %, and its spread, by the limit theorem, to a tenth.
TEST(RowWork, ACutStreamAsItIsDrawn) {
  const SequenceLengths lengths{{20, 60, 100, 200, 600}, RowsOf::cut};
  Drawn drawn(lengths);
  constexpr int kRows = 40'000;
  double sum = 0, squares = 0;
  for (int r = 0; r < kRows; ++r) {
    const double share = drawn.cut(kRow);
    sum += share;
    squares += share * share;
  }
  const double mean = sum / kRows, spread = std::sqrt(squares / kRows - mean * mean);
  EXPECT_NEAR(mean_row(lengths, kRow, 1).squared / mean, 1, 0.01);
  EXPECT_NEAR(row_spread(lengths, kRow) / spread, 1, 0.1);
}

// Longer than rows: the same mean exactly, however few a row holds.
TEST(RowWork, AStreamOfLongOnesAsItIsDrawn) {
  const SequenceLengths lengths{{500, 1000, 6000}, RowsOf::cut};
  Drawn drawn(lengths);
  constexpr int kRows = 40'000;
  double sum = 0;
  for (int r = 0; r < kRows; ++r) sum += drawn.cut(kRow);
  EXPECT_NEAR(mean_row(lengths, kRow, 1).squared / (sum / kRows), 1, 0.01);
}

// Eight replicas, four micro-batches of two rows, attention 3 s of a whole row's squares: the
// slowest of eight sums of four, and the sum of four slowest of eight.
TEST(RowWork, UnlikeReplicasAsTheyAreDrawn) {
  const SequenceLengths lengths{{20, 60, 100, 200, 600}, RowsOf::cut};
  const MicrobatchTime time{Seconds(1), Seconds(3)};
  constexpr int kSteps = 4000, kReplicas = 8, kMicrobatches = 4, kBatch = 2;
  Drawn drawn(lengths);
  double at_end = 0, each = 0, mean = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<double> whole(kReplicas, 0);
    for (int m = 0; m < kMicrobatches; ++m) {
      double slowest = 0;
      for (double& replica : whole) {
        double takes = 1;
        for (int b = 0; b < kBatch; ++b) takes += 3 * drawn.cut(kRow) / kBatch;
        replica += takes;
        slowest = std::max(slowest, takes);
        mean += takes / (kReplicas * kSteps);
      }
      each += slowest / kSteps;
    }
    at_end += *std::ranges::max_element(whole) / kSteps;
  }
  const auto extra = [&](int each_microbatch) {
    return imbalance(lengths, kRow, time, {kBatch, kMicrobatches, kReplicas, each_microbatch})
        .count();
  };
  EXPECT_NEAR(extra(1) / (at_end - mean), 1, 0.1);
  EXPECT_NEAR(extra(kReplicas) / (each - mean), 1, 0.1);
  EXPECT_GT(extra(kReplicas), extra(1));
}

// Rows as long as the longest of two sequences, four replicas that wait for each other: for the
// longest of eight. Drawn, the mean is known to 1 %.
TEST(RowWork, TheLongestOfAllReplicasAsItIsDrawn) {
  const SequenceLengths lengths{{20, 60, 100, 200, 600}, RowsOf::longest};
  Drawn drawn(lengths);
  constexpr int kSteps = 40'000;
  const auto takes = [](double length) {
    const double share = length / kRow;
    return share + 3 * share * share;
  };
  double slowest = 0, mean = 0;
  for (int step = 0; step < kSteps; ++step) {
    double longest = 0;
    for (int replica = 0; replica < 4; ++replica) {
      const double own = std::max(drawn.length(), drawn.length());
      longest = std::max(longest, own);
      mean += takes(own) / (4.0 * kSteps);
    }
    slowest += takes(longest) / kSteps;
  }
  const MicrobatchTime time{Seconds(1), Seconds(3)};
  const double extra = imbalance(lengths, kRow, time, {2, 5, 4, 4}).count();
  EXPECT_NEAR(extra / (5 * (slowest - mean)), 1, 0.02);
  // One micro-batch a step ends with the step.
  EXPECT_NEAR(imbalance(lengths, kRow, time, {2, 1, 4, 1}).count() / (slowest - mean), 1, 0.02);
}

// One replica waits for nobody.
TEST(RowWork, OneReplicaHasNoOthers) {
  const MicrobatchTime time{Seconds(1), Seconds(3)};
  EXPECT_EQ(imbalance({{1, 9}, RowsOf::packed}, kRow, time, {1, 4, 1, 1}), Seconds(0));
  EXPECT_EQ(imbalance({}, kRow, time, {1, 4, 8, 1}), Seconds(0));
}

// Measured times of a block know no kernels: of F the core's FLOPs are quadratic. Fused, causal,
// h = 8, s = 4, f = 32: 4 x (2 x 8 x 24 + 2 x 8 x 8 + 2 x 2 x 8 x 32) = 6144 and, of the causal
// half, 2 x 16 x 8 = 256: 4 %. Packed with sequences of half a row, half of those go. The backward
// does each half of it again. Unfused, all scores are made, and none go; a window's are not
// squares.
TEST(RowWork, OfMeasuredTimesAttentionGoesByItsFlops) {
  TransformerShape block{.hidden = 8,
                         .heads = 2,
                         .kv_heads = 2,
                         .head_dim = 4,
                         .ffn = 32,
                         .attention = AttentionKind::fused};
  Model model;
  model.layers = {{"b", block, ""}};
  model.family = "layers";
  Plan plan;
  plan.seq_length = 4;
  plan.attention = AttentionKind::fused;
  Costs costs;
  costs.basis = Basis::measured;
  LayerCost cost;
  cost.key = layer_key(model.layers[0], 4, Dtype::fp32);
  cost.by_batch[1] = {{Seconds(64e-6), Seconds(64e-6), Seconds(64e-6), Seconds(128e-6)}};
  costs.layers = {cost};
  const auto priced = [&] {
    const ResolvedPlan loaded =
        derive(plan, model, std::get<Schedule>(make_schedule("gpipe", {1, 1, 1})));
    return cost_table(loaded, costs, Cluster{}).table.stages[0];
  };
  const auto f = [&] { return priced().f.count(); };
  EXPECT_EQ(f(), 64'000);
  plan.lengths = {{2}, RowsOf::packed};
  EXPECT_EQ(f(), 64'000 - 64'000 * 256 / 6400 / 2);
  EXPECT_EQ(priced().b.count(), 2 * f());
  // A sequence a row, of half its tokens: half of what is linear, a quarter of the squares.
  plan.lengths.rows = RowsOf::longest;
  EXPECT_EQ(f(), 64'000 * 6144 / 6400 / 2 + 64'000 * 256 / 6400 / 4);
  EXPECT_EQ(priced().b.count(), 2 * f());
  const auto of_block = [&](auto change) {
    change(block);
    model.layers[0].shape = block;
    costs.layers[0].key = layer_key(model.layers[0], 4, Dtype::fp32);
    plan.lengths.rows = RowsOf::packed;
    return f();
  };
  EXPECT_EQ(of_block([](TransformerShape& b) { b.window = 2; }), 64'000);
  plan.attention = AttentionKind::unfused;
  EXPECT_EQ(of_block([](TransformerShape& b) {
              b.window = 0;
              b.attention = AttentionKind::unfused;
            }),
            64'000);
  // Unfused, its core is of all scores, 512 of 6656: half of the rest and a quarter of those.
  plan.lengths.rows = RowsOf::longest;
  EXPECT_EQ(f(), 30'769);
}

}  // namespace
}  // namespace weir::row_work_test
