// The paper's formulas by hand on a small block, and its four models to the digits that Calculon
// prints (SC 2023, figure 1, "profile": 59.25, 66.84375, 114.0234, 131.25 GiB, and 9.5625, 12.3516,
// 23.0762, 26.5625 with all savings).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/korthikanti.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/model/layer_tensors.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir::korthikanti_test {
namespace {

// s = 4, b = 2, h = 8, a = 2, t = 2: s b h = 64, 5 a s^2 b = 320.
constexpr KorthikantiBlock kSmall{4, 2, 8, 2, 2};

TEST(Korthikanti, WithoutParallelism) {
  EXPECT_EQ(korthikanti_whole(kSmall), Bytes(34 * 64 + 320));
}
TEST(Korthikanti, Tensor) { EXPECT_EQ(korthikanti_tensor(kSmall), Bytes(10 * 64 + 12 * 64 + 160)); }
TEST(Korthikanti, Sequence) { EXPECT_EQ(korthikanti_sequence(kSmall), Bytes(17 * 64 + 160)); }
TEST(Korthikanti, TensorSelective) {
  EXPECT_EQ(korthikanti_tensor_selective(kSmall), Bytes(22 * 64));
}
TEST(Korthikanti, SequenceSelective) {
  EXPECT_EQ(korthikanti_sequence_selective(kSmall), Bytes(17 * 64));
}
TEST(Korthikanti, Full) { EXPECT_EQ(korthikanti_full(kSmall), Bytes(128)); }
TEST(Korthikanti, Embedding) { EXPECT_EQ(korthikanti_embedding(kSmall), Bytes(32)); }
// 4 x 64 / 2 x (1 + 16 / 8).
TEST(Korthikanti, Head) { EXPECT_EQ(korthikanti_head(kSmall, 16), Bytes(384)); }

struct Case {
  KorthikantiBlock block;
  int layers, pp, chunks, microbatches;
  double baseline_gib, saved_gib;
};
// Table 3: 22B, 175B, 530B, 1T.
const Case kCases[] = {{{2048, 4, 6144, 64, 8}, 48, 1, 1, 1, 59.25, 9.5625},
                       {{2048, 1, 12288, 96, 8}, 96, 8, 3, 64, 66.84375, 12.3515625},
                       {{2048, 1, 20480, 128, 8}, 105, 35, 3, 280, 114.0234375, 23.076171875},
                       {{2048, 1, 25600, 160, 8}, 128, 64, 1, 512, 131.25, 26.5625}};

double first_rank_gib(const Case& c, Bytes layer) {
  const auto schedule = std::get<Schedule>(
      make_schedule(c.chunks > 1 ? "interleaved-1f1b" : "1f1b", {c.pp, c.chunks, c.microbatches}));
  const std::vector<Bytes> stages(static_cast<std::size_t>(schedule.shape.total_stages()),
                                  layer * std::int64_t{c.layers / (c.pp * c.chunks)});
  return static_cast<double>(peak_held(schedule, stages).front().count()) / (1 << 30);
}

// In flight by the schedule's own order: nothing of L, p or m is put in.
TEST(Korthikanti, ItsFourModels) {
  for (const Case& c : kCases) {
    EXPECT_DOUBLE_EQ(first_rank_gib(c, korthikanti_tensor(c.block)), c.baseline_gib) << c.layers;
    EXPECT_DOUBLE_EQ(first_rank_gib(c, korthikanti_sequence_selective(c.block)), c.saved_gib)
        << c.layers;
  }
}

// 1F1B, K = 4, 2 layers a stage of 10 bytes, 3 more for the embedding and 7 for the head: rank k
// holds K - k.
TEST(Korthikanti, EveryStageByItself) {
  const auto schedule = std::get<Schedule>(make_schedule("1f1b", {4, 1, 8}));
  const std::vector<Bytes> stages{Bytes(23), Bytes(20), Bytes(20), Bytes(27)};
  EXPECT_EQ(peak_held(schedule, stages),
            (std::vector<Bytes>{Bytes(92), Bytes(60), Bytes(40), Bytes(27)}));
}

// What the executor keeps of the same block in bf16 is the paper's less the masks, which are drawn
// again (2 s b h of the residuals, a s^2 b of the probabilities), less the probabilities after
// dropout (2 a s^2 b), and with the statistics of two norms (2 numbers of 4 bytes a token each).
TEST(Korthikanti, TheExecutorsTensorsAreThePapersLessMasks) {
  const Layer layer{
      "b", TransformerShape{.hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .ffn = 32}, ""};
  const auto kept = [&](const Split& split) {
    const LayerTensors tensors = layer_tensors(layer, 4, Dtype::bf16, split);
    std::int64_t bytes = tensors.output_bytes_per_sample;  // its input, as large
    for (const KeptTensor& tensor : tensors.saved) bytes += tensor.bytes_per_sample;
    return bytes * 2;
  };
  const std::int64_t statistics = 2 * 2 * 4 * 4 * 2;
  EXPECT_EQ(kept({}), korthikanti_whole(kSmall).count() - 2 * 64 - 3 * 64 + statistics);
  EXPECT_EQ(kept({2, 1, true}),
            (korthikanti_sequence(kSmall).count() - 64 - 3 * 32) + statistics / 2);
  EXPECT_EQ(kept({2, 1, false}),
            (korthikanti_tensor(kSmall).count() - 2 * 64 - 3 * 32) + statistics);
}

}  // namespace
}  // namespace weir::korthikanti_test
