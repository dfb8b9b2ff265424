// Convolutional networks against published counts of parameters and layers, and by hand where they
// are small.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "plan/model/cnn/network.hpp"
#include "plan/model/cnn/read.hpp"
#include "plan/model/layer_kinds.hpp"
#include "plan/model/layer_tensors.hpp"
#include "plan/words/error.hpp"
#include "tests/plan/complaint.hpp"

namespace weir::cnn_test {
namespace {

using testing::HasSubstr;

const SizedShape& sized(const Layer& layer) { return std::get<SizedShape>(layer.shape); }

const Layer& named(const Model& model, const std::string& name) {
  for (const Layer& layer : model.layers) {
    if (layer.name == name) return layer;
  }
  throw std::out_of_range(name);
}

double gigaflops(const Model& model) {
  double total = 0;
  for (const Layer& layer : model.layers) total += sized(layer).forward.count();
  return total / 1e9;
}

// torchvision's model tables: 44,549,160 parameters and 7.80 GMAC for depth 101; 25,557,032 and
// 4.09 for 50; 60,192,808 and 11.51 for 152. torchgpipe cuts ResNet-101 into 370 layers.
TEST(ResNet, HasItsPublishedParametersAndProducts) {
  const Model model = cnn::resnet(101, {}, 1000);
  EXPECT_EQ(parameter_count(model), 44'549'160);
  EXPECT_EQ(model.layers.size(), 370U);
  EXPECT_NEAR(gigaflops(model) / 2, 7.80, 0.005);
  EXPECT_EQ(parameter_count(cnn::resnet(50, {}, 1000)), 25'557'032);
  EXPECT_NEAR(gigaflops(cnn::resnet(50, {}, 1000)) / 2, 4.09, 0.005);
  EXPECT_EQ(parameter_count(cnn::resnet(152, {}, 1000)), 60'192'808);
  EXPECT_NEAR(gigaflops(cnn::resnet(152, {}, 1000)) / 2, 11.51, 0.005);
}

// Of blocks, with the classifier as head: torchvision's 11,689,512 parameters and 1.81 GMAC for
// depth 18, and the same 25,557,032 and 4.09 for 50; a stem, a layer a block, the mean and the
// head.
TEST(ResNet, OfBlocksHasTheSameParametersAndProducts) {
  const struct {
    const char* depth;
    std::int64_t parameters;
    double gigaproducts;
    std::size_t blocks;
  } cases[] = {{"18", 11'689'512, 1.81, 8}, {"50", 25'557'032, 4.09, 16}};
  for (const auto& c : cases) {
    const std::string text =
        std::string(R"({"schema":"weir.cnn/1","network":"resnet","layers":"blocks","depth":)") +
        c.depth + R"(,"image":224,"classes":1000})";
    const Model model = cnn_model(parse_json(text, "net.json"), "net.json");
    EXPECT_EQ(parameter_count(model), c.parameters);
    EXPECT_EQ(model.layers.size(), c.blocks + 3);
    double products = 0;
    for (const Layer& layer : model.layers)
      products += std::visit([](const auto& s) { return kinds::forward_flops(s, 0).count(); },
                             layer.shape) /
                  2e9;
    EXPECT_NEAR(products, c.gigaproducts, 0.005);
  }
}

// conv1: 7 7 3 64 = 9408 weights, each used at 112 112 places, two FLOPs each; it keeps the image,
// 3 224 224. The first bottleneck, on 64 x 56 x 56: its residual projects 64 to 256 channels, 64
// 256 + 2 256 parameters, and keeps the skipped map, 64 56 56, and what its norm reads, 256 56 56.
// The second only adds.
TEST(ResNet, ABottleneckByHand) {
  const Model model = cnn::resnet(101, {}, 1000);
  const SizedShape& first = sized(model.layers[0]);
  EXPECT_EQ(first.parameters, 9408);
  EXPECT_EQ(first.forward.count(), 2.0 * 9408 * 112 * 112);
  EXPECT_EQ(first.input, 3 * 224 * 224);
  EXPECT_TRUE(first.keeps_input);
  EXPECT_EQ(first.output, 64 * 112 * 112);
  EXPECT_EQ(sized(model.layers[3]).output, 64 * 56 * 56) << "max pooling";
  const SizedShape& projected = sized(named(model, "layer1.0.residual"));
  EXPECT_EQ(projected.parameters, 64 * 256 + 2 * 256);
  EXPECT_EQ(projected.kept, (64 + 256) * 56 * 56);
  EXPECT_EQ(sized(named(model, "layer1.1.residual")).parameters, 0);
  EXPECT_EQ(sized(named(model, "layer1.1.residual")).kept, 0);
  EXPECT_EQ(sized(named(model, "layer2.0.conv2")).output, 128 * 28 * 28)
      << "the 3x3 convolution halves";
}

// Layers 0 to 3 are the stem; bottleneck i begins at 4 + 11 i with its identity, and adds nine
// layers later.
TEST(ResNet, EveryBottleneckSkipsItsConvolutions) {
  const Model model = cnn::resnet(101, {}, 1000);
  ASSERT_EQ(model.skips.size(), 33U);
  for (std::int32_t i = 0; i < 33; ++i) {
    EXPECT_EQ(model.skips[static_cast<std::size_t>(i)].from, 4 + 11 * i);
    EXPECT_EQ(model.skips[static_cast<std::size_t>(i)].to, 4 + 11 * i + 9);
  }
}

struct Published {
  std::int64_t a, b;
  std::size_t layers;
  double millions;   // of parameters
  double tolerance;  // half of the last printed digit
};

// torchgpipe's U-Net (B, C) table; layers from its balances (505 = [505], 1077 = [526, 551], ...).
TEST(UNet, HasItsPublishedParameters) {
  constexpr std::array<Published, 5> kRows{{{6, 72, 285, 362.2, 0.05},
                                            {11, 128, 505, 2210, 5},
                                            {24, 128, 1077, 4990, 5},
                                            {24, 160, 1077, 7800, 5},
                                            {48, 160, 2133, 15820, 5}}};
  for (const Published& row : kRows) {
    const Model model = cnn::unet({.convolutions = row.a, .channels = row.b}, {3, 192});
    EXPECT_NEAR(static_cast<double>(parameter_count(model)) / 1e6, row.millions, row.tolerance);
    EXPECT_EQ(model.layers.size(), row.layers) << row.a << " " << row.b;
  }
  EXPECT_EQ(cnn::unet({}, {3, 192}).layers.size(), 241U);
}

// Depth 1, one convolution a cell, 2 channels, an image of 3 x 4 x 4. Down: 3 to 2 channels on 4 x
// 4, 9 3 2 = 54 weights, stash, pooled to 2 x 2. Bottleneck: 2 to 2, 36. Up to 4 x 4, with the
// stash 4 channels, 4 to 1: 36. Segment 1 to 1: 1. Layers: 4 + 2 (stash, pool) + 4 + 2 (up, concat)
// + 4 + 1; the skip goes from layer 4 to layer 11.
TEST(UNet, TheSmallestByHand) {
  const Model model = cnn::unet({.depth = 1, .convolutions = 1, .channels = 2}, {3, 4});
  ASSERT_EQ(model.layers.size(), 17U);
  EXPECT_EQ(parameter_count(model), 54 + 36 + 36 + 1);
  ASSERT_EQ(model.skips.size(), 1U);
  EXPECT_EQ(model.skips[0].from, 4);
  EXPECT_EQ(model.skips[0].to, 11);
  EXPECT_EQ(kind_name(model.layers[11]), "concat");
  EXPECT_EQ(sized(model.layers[11]).output, 4 * 4 * 4);
  EXPECT_EQ(sized(model.layers[6]).forward.count(), 2 * 36 * 4)
      << "the bottleneck's convolution on 2 x 2";
}

// GPipe's table 1 prints 82M, 318M, 542M, 1.05B and 1.8B; torchgpipe's, of its own network, one
// digit more.
TEST(AmoebaNetD, HasTheParametersOfGPipesTable) {
  constexpr std::array<Published, 5> kRows{{{18, 208, 24, 81.5, 0.05},
                                            {18, 416, 24, 319.0, 0.05},
                                            {18, 544, 24, 542.7, 0.05},
                                            {36, 544, 42, 1060, 5},
                                            {72, 512, 78, 1840, 5}}};
  for (const Published& row : kRows) {
    const Model model = cnn::amoebanet_d(row.a, row.b, {}, 1000);
    EXPECT_NEAR(static_cast<double>(parameter_count(model)) / 1e6, row.millions, row.tolerance);
    EXPECT_EQ(model.layers.size(), row.layers);
  }
}

// Of cells that train: the same parameters, FLOPs and layers, but for the mean, a layer of its own
// before the head.
TEST(AmoebaNetD, OfBlocksHasTheSameParametersAndProducts) {
  for (const std::int64_t cells : {3, 18}) {
    const Model forecast = cnn::amoebanet_d(cells, 208, {}, 1000);
    const Model model = cnn::amoebanet_d_blocks(cells, 208, {}, 1000);
    EXPECT_EQ(parameter_count(model), parameter_count(forecast));
    EXPECT_EQ(model.layers.size(), forecast.layers.size() + 1);
    double products = 0;
    for (const Layer& layer : model.layers)
      products += std::visit([](const auto& s) { return kinds::forward_flops(s, 0).count(); },
                             layer.shape) /
                  1e9;
    EXPECT_NEAR(products, gigaflops(forecast), 1e-9 * products);
  }
}

// Its cells hand on two maps, the first only its own, the last too. D = 8: the stem's 2 channels of
// 16 x 16; reductions to 3 x 4 of 8 x 8 and 3 x 8 of 4 x 4, each with what it read; a cell's 4 x 8.
TEST(AmoebaNetD, ACellOfBlocksHandsOnTheOneBefore) {
  const Model model = cnn::amoebanet_d_blocks(3, 8, {3, 32}, 10);
  const auto numbers = [&](std::size_t layer) {
    return layer_tensors(model.layers[layer], 0, Dtype::fp32).output_bytes_per_sample / 4;
  };
  const std::int64_t x0 = 2 * 256, x1 = 12 * 64, x2 = 24 * 16, x3 = 32 * 16;
  EXPECT_EQ(numbers(0), x0);
  EXPECT_EQ(numbers(1), x1 + x0);
  EXPECT_EQ(numbers(2), x2 + x1);
  EXPECT_EQ(numbers(3), x3 + x2);
  EXPECT_EQ(numbers(7), 4 * 32);
  EXPECT_EQ(kind_name(model.layers[7]), "cell");
}

// D = 8: the last cells have c = 8/4 2^4 = 32 channels on 7 x 7 and read two maps of 4 c. Weights:
// 4 c^2 for each of those; three 1x1 convolutions, c^2 each; twice 1x1, 1x7, 7x1, 1x1 through c/4,
// c^2/2 + 14 c^2/16 each: 13.75 c^2 in all. Gains and shifts: 2 c (2 + 3) + 2 (3.5 c) = 17 c. Kept,
// over 7 x 7: 5 c for each input, 2 c for each 1x1, 3.5 c for each chain, and the two states that
// max poolings read: 25 c.
TEST(AmoebaNetD, ANormalCellByHand) {
  const Model model = cnn::amoebanet_d(18, 8, {}, 10);
  const SizedShape& cell = sized(named(model, "cell5.3"));
  EXPECT_EQ(cell.parameters, 13.75 * 32 * 32 + 17 * 32);
  EXPECT_EQ(cell.forward.count(), 2 * 13.75 * 32 * 32 * 49);
  EXPECT_EQ(cell.kept, 25 * 32 * 49);
  EXPECT_EQ(cell.output, 4 * 32 * 49);
}

// Each cell reads the layer before the last: from stem.reduction2 (layer 2) on, a skip from two
// layers back.
TEST(AmoebaNetD, EveryCellReadsTwoLayers) {
  const Model model = cnn::amoebanet_d(3, 8, {}, 10);
  ASSERT_EQ(model.skips.size(), 6U);
  for (std::int32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(model.skips[static_cast<std::size_t>(i)].from, i);
    EXPECT_EQ(model.skips[static_cast<std::size_t>(i)].to, i + 2);
  }
}

// A convolution of 2 -> 4 channels on 2 x 2 in bf16: 16 numbers out, its input kept until W, which
// needs the gradient.
TEST(SizedLayers, TensorsFollowTheSizes) {
  cnn::Network network({2, 2, 2});
  network.convolution("conv", {.channels = 4});
  network.plain("relu", "relu");
  const Model model = network.take();
  const LayerTensors conv = layer_tensors(model.layers[0], 0, Dtype::bf16);
  EXPECT_EQ(conv.output_bytes_per_sample, 32);
  EXPECT_TRUE(conv.saves_input);
  EXPECT_EQ(conv.input_until, KeptUntil::W);
  EXPECT_TRUE(conv.w_needs_output_gradient);
  EXPECT_TRUE(conv.saved.empty());
  const LayerTensors relu = layer_tensors(model.layers[1], 0, Dtype::bf16);
  EXPECT_FALSE(relu.saves_input);
  EXPECT_TRUE(relu.parameters.empty());
}

std::string refusal(const std::string& text) {
  return complaint([&] { static_cast<void>(cnn_model(parse_json(text, "net.json"), "net.json")); });
}

TEST(CnnFiles, RefusalsNameTheKey) {
  const auto of = [](const std::string& keys) {
    return refusal(R"({"schema":"weir.cnn/1",)" + keys + "}");
  };
  EXPECT_THAT(of(R"("network":"vgg")"),
              HasSubstr("net.json: network: \"vgg\": expected amoebanet-d, resnet or unet"));
  EXPECT_THAT(of(R"("network":"resnet","depth":34,"image":224,"classes":10)"),
              HasSubstr("net.json: depth: expected 50, 101 or 152"));
  EXPECT_THAT(of(R"("network":"resnet","layers":"blocks","depth":20,"image":224,"classes":10)"),
              HasSubstr("net.json: depth: expected 18, 34, 50, 101 or 152"));
  EXPECT_THAT(of(R"("network":"resnet","layers":"cells","depth":50,"image":224,"classes":10)"),
              HasSubstr("net.json: layers: expected blocks or operations"));
  EXPECT_THAT(of(R"("network":"resnet","layers":"blocks","blocks":[1],"stem":"5x5","image":8)"),
              HasSubstr("net.json: stem: expected 7x7 or 3x3"));
  EXPECT_THAT(of(R"("network":"amoebanet-d","cells":16,"filters":256,"image":224,"classes":10)"),
              HasSubstr("net.json: cells: expected a multiple of 3"));
  EXPECT_THAT(of(R"("network":"unet","depth":5,"convolutions":5,"channels":64,"image":200)"),
              HasSubstr("net.json: image: expected a multiple of 32"));
  EXPECT_THAT(of(R"("network":"resnet","depth":50,"image":224)"),
              HasSubstr("net.json: classes: is missing"));
  EXPECT_THAT(of(R"("network":"resnet","depth":50,"image":224,"classes":10,"cells":3)"),
              HasSubstr("net.json: cells: unknown key"));
}

}  // namespace
}  // namespace weir::cnn_test
