// Reads weir.cnn/1: the name of a network and its few numbers.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/cnn/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/model/cnn/network.hpp"

namespace weir {
namespace {

constexpr std::int64_t kLargestImage = 4096;
constexpr std::int64_t kMostChannels = 65'536;
constexpr std::int64_t kMostRepeats = 3000;
constexpr std::int64_t kMostLevels = 8;

cnn::Image image(JsonObject& top, std::int64_t multiple) {
  const std::int64_t side = top.integer("image", 1, kLargestImage);
  if (side % multiple != 0) top.fail("image", fmt::format("expected a multiple of {}", multiple));
  return {top.integer_or("input_channels", 3, 1, kMostChannels), side};
}

std::int64_t multiple_of(JsonObject& top, std::string_view key, std::int64_t factor,
                         std::int64_t most) {
  const std::int64_t value = top.integer(key, 1, most);
  if (value % factor != 0) top.fail(key, fmt::format("expected a multiple of {}", factor));
  return value;
}

struct NamedDepth {
  std::int64_t depth;
  bool bottleneck;
  std::array<std::int64_t, 4> blocks;
};
// He et al., CVPR 2016, table 1.
constexpr std::array<NamedDepth, 5> kDepths{{{18, false, {2, 2, 2, 2}},
                                             {34, false, {3, 4, 6, 3}},
                                             {50, true, {3, 4, 6, 3}},
                                             {101, true, {3, 4, 23, 3}},
                                             {152, true, {3, 8, 36, 3}}}};

cnn::ResNetBlocks resnet_sizes(JsonObject& top) {
  cnn::ResNetBlocks sizes;
  if (top.has("depth")) {
    const std::int64_t depth = top.integer("depth");
    const auto* named = std::ranges::find(kDepths, depth, &NamedDepth::depth);
    if (named == kDepths.end()) top.fail("depth", "expected 18, 34, 50, 101 or 152");
    sizes.blocks.assign(named->blocks.begin(), named->blocks.end());
    sizes.bottleneck = named->bottleneck;
  } else {
    sizes.blocks = top.integers("blocks", 1, kMostRepeats);
    if (sizes.blocks.empty() || sizes.blocks.size() > kMostLevels)
      top.fail("blocks", fmt::format("expected 1 to {} groups", kMostLevels));
    sizes.bottleneck = top.boolean_or("bottleneck", false);
  }
  sizes.width = top.integer_or("width", 64, 1, kMostChannels);
  const std::string stem = top.text_or("stem", "7x7");
  if (stem != "7x7" && stem != "3x3") top.fail("stem", "expected 7x7 or 3x3");
  sizes.small_images = stem == "3x3";
  return sizes;
}

// Layers that can be executed, not operations.
bool of_blocks(JsonObject& top) {
  const std::string layers = top.text_or("layers", "operations");
  if (layers != "blocks" && layers != "operations")
    top.fail("layers", "expected blocks or operations");
  return layers == "blocks";
}

Model read_amoebanet(JsonObject& top) {
  const std::int64_t cells = multiple_of(top, "cells", 3, kMostRepeats);
  const std::int64_t filters = multiple_of(top, "filters", 8, kMostChannels);
  // Halved five times: by the stem and by four reduction cells.
  const cnn::Image size = image(top, 32);
  const std::int64_t classes = top.integer("classes", 1, kMostChannels);
  return of_blocks(top) ? cnn::amoebanet_d_blocks(cells, filters, size, classes)
                        : cnn::amoebanet_d(cells, filters, size, classes);
}

Model read_resnet(JsonObject& top) {
  if (of_blocks(top)) {
    const cnn::ResNetBlocks sizes = resnet_sizes(top);
    return cnn::resnet_blocks(sizes, image(top, 1), top.integer("classes", 1, kMostChannels));
  }
  const std::int64_t depth = top.integer("depth");
  if (depth != 50 && depth != 101 && depth != 152) top.fail("depth", "expected 50, 101 or 152");
  return cnn::resnet(depth, image(top, 1), top.integer("classes", 1, kMostChannels));
}

Model read_unet(JsonObject& top) {
  const cnn::UNet sizes{.depth = top.integer("depth", 1, kMostLevels),
                        .convolutions = top.integer("convolutions", 1, kMostRepeats),
                        .channels = multiple_of(top, "channels", 2, kMostChannels),
                        .outputs = top.integer_or("output_channels", 1, 1, kMostChannels)};
  // Each level halves the image.
  const cnn::Image size = image(top, std::int64_t{1} << sizes.depth);
  return of_blocks(top) ? cnn::unet_blocks(sizes, size) : cnn::unet(sizes, size);
}

Model read_network(JsonObject& top) {
  const std::string network = top.text("network");
  if (network == "amoebanet-d") return read_amoebanet(top);
  if (network == "resnet") return read_resnet(top);
  if (network == "unet") return read_unet(top);
  top.fail("network",
           fmt::format("\"{}\": expected amoebanet-d, resnet or unet", network.substr(0, 40)));
}

}  // namespace

Model cnn_model(const Json& json, const std::string& file) {
  JsonObject top(json, file, "");
  top.expect_schema("weir.cnn/1");
  Model model = read_network(top);
  model.name = top.text_or("name", "");
  model.family = "cnn";
  top.finish();
  return model;
}

}  // namespace weir
