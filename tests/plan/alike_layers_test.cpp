// Which layers of a model are alike, and what a device's part of a deep model holds of them.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/alike_layers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/model/model_part.hpp"

namespace weir::alike_layers_test {
namespace {

using testing::ElementsAre;

const TransformerShape kBlock{.hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .ffn = 32};

Model deep(int blocks) {
  Model model;
  model.layers = {{"embedding", EmbeddingShape{.vocabulary = 10, .hidden = 8, .tied = true}, ""}};
  for (int b = 0; b < blocks; ++b)
    model.layers.push_back({"block." + std::to_string(b), kBlock, ""});
  model.layers.push_back({"norm", NormShape{.hidden = 8}, ""});
  model.layers.push_back({"head", HeadShape{.vocabulary = 10, .hidden = 8, .tied = true}, ""});
  return model;
}

// Names do not tell layers apart; sizes, labels and what a plan does to them do.
TEST(AlikeLayers, AreEqualInAllButTheirNames) {
  Model model = deep(4);
  EXPECT_THAT(alike_layers(model.layers).kind, ElementsAre(0, 1, 1, 1, 1, 2, 3));
  EXPECT_THAT(alike_layers(model.layers).first, ElementsAre(0, 1, 5, 6));
  std::get<TransformerShape>(model.layers[2].shape).window = 4;
  EXPECT_THAT(alike_layers(model.layers).kind, ElementsAre(0, 1, 2, 1, 1, 3, 4));
  model.layers[3].treated.frozen = true;
  EXPECT_THAT(alike_layers(model.layers).kind, ElementsAre(0, 1, 2, 3, 1, 4, 5));
  model.layers[4].label = "last";
  EXPECT_THAT(alike_layers(model.layers).kind, ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

// Groups of a few layers are found where they come again: dense and experts in turn. Where all
// differ each is a kind.
TEST(AlikeLayers, MayComeAgain) {
  std::vector<Layer> turns, all;
  for (int l = 0; l < 100; ++l) {
    turns.push_back({"", TimedShape{.parameters = l % 5}, ""});
    all.push_back({"", TimedShape{.parameters = l}, ""});
  }
  EXPECT_THAT(alike_layers(turns).first, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(alike_layers(turns).kind_of(98), 3);
  EXPECT_EQ(alike_layers(all).first.size(), 100U);
}

// Embedding, block, norm and head: four parts, however many blocks there are. A skip of the
// first block's output to the third, a row of 8 numbers in fp32 for each of 4 tokens, crosses
// behind the second alone.
TEST(AlikeLayers, HaveOnePartOfADevice) {
  Model model = deep(20'000);
  const ModelPart plain = model_part(model, 4, Dtype::fp32);
  EXPECT_EQ(plain.size(), 20'003);
  EXPECT_EQ(plain.kinds.size(), 4U);
  EXPECT_THAT(plain.runs, ElementsAre(LayerRange{0, 1}, LayerRange{1, 20'001},
                                      LayerRange{20'001, 20'002}, LayerRange{20'002, 20'003}));
  EXPECT_EQ(plain.layer(17'000).parameters, 12 * 64 + 13 * 8);
  EXPECT_EQ(plain.weight({17'000, 1}), (ParameterId{17'000, 1}));
  EXPECT_EQ(plain.weight({20'002, 0}), (ParameterId{0, 0}));
  model.skips = {{.from = 1, .to = 3}};
  const ModelPart skipped = model_part(model, 4, Dtype::fp32);
  EXPECT_EQ(skipped.kinds.size(), 5U);
  EXPECT_THAT(skipped.runs[2], (LayerRange{2, 3}));
  EXPECT_EQ(skipped.layer(2).crossing_bytes, 2 * 8 * 4 * 4);
  EXPECT_EQ(skipped.layer(3).crossing_bytes, 8 * 4 * 4);
}

}  // namespace
}  // namespace weir::alike_layers_test
