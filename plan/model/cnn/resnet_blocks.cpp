// A residual network whose layers are whole blocks, so that each can be executed:
//
//   block          x > conv1 > norm > relu > conv2 > norm > + > relu
//   bottleneck     x > conv1 > norm > relu > conv2 > norm > relu > conv3 > norm > + > relu
//                    \______ where sizes differ: convolution and norm ______________/
//
// Layers and parameters are called as in torchvision's resnet, with "stem" before the first ones.
// A bottleneck's stride is its second convolution's, as there (ResNet v1.5).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/model/cnn/cell_builder.hpp"
#include "plan/model/cnn/network.hpp"

namespace weir::cnn {
namespace {

constexpr std::int64_t kWidening = 4;  // output channels of a bottleneck over its planes

CellShape stem(const ResNetBlocks& sizes, const Image& image) {
  CellBuilder cell({image.channels, image.side, image.side}, true);
  const Window window = sizes.small_images ? square(3) : square(7, 2);
  int value = cell.convolution("conv1", 0, {.count = sizes.width}, window);
  value = cell.relu("relu", cell.batch_norm("bn1", value));
  if (!sizes.small_images) cell.max_pool("maxpool", value, square(3, 2));
  return cell.take();
}

CellShape block(const FeatureMap& input, std::int64_t planes, std::int64_t stride,
                bool bottleneck) {
  CellBuilder cell(input);
  const std::int64_t output = bottleneck ? kWidening * planes : planes;
  const Window first = bottleneck ? square(1) : square(3, stride);
  int value = cell.convolution("conv1", 0, {.count = planes}, first);
  value = cell.relu("relu1", cell.batch_norm("bn1", value));
  value = cell.convolution("conv2", value, {.count = planes}, square(3, bottleneck ? stride : 1));
  value = cell.batch_norm("bn2", value);
  if (bottleneck) {
    value = cell.convolution("conv3", cell.relu("relu2", value), {.count = output}, square(1));
    value = cell.batch_norm("bn3", value);
  }
  int shortcut = 0;
  if (stride != 1 || input.channels != output) {
    shortcut = cell.convolution("downsample.0", 0, {.count = output}, square(1, stride));
    shortcut = cell.batch_norm("downsample.1", shortcut);
  }
  cell.relu("relu", cell.add("residual", {value, shortcut}));
  return cell.take();
}

}  // namespace

Model resnet_blocks(const ResNetBlocks& sizes, const Image& image, std::int64_t classes) {
  Model model;
  const auto append = [&model](const std::string& name, CellShape cell, const std::string& label) {
    const FeatureMap output = cell.map(cell.output());
    model.layers.push_back({name, std::move(cell), label});
    return output;
  };
  FeatureMap map = append("stem", stem(sizes, image), "stem");
  std::int64_t planes = sizes.width;
  for (std::size_t group = 0; group < sizes.blocks.size(); ++group, planes *= 2) {
    for (std::int64_t i = 0; i < sizes.blocks[group]; ++i) {
      const std::int64_t stride = i == 0 && group > 0 ? 2 : 1;
      map = append(fmt::format("layer{}.{}", group + 1, i),
                   block(map, planes, stride, sizes.bottleneck), "block");
    }
  }
  CellBuilder pool(map);
  pool.global_pool("avgpool", 0);
  map = append("avgpool", pool.take(), "pool");
  model.layers.push_back(
      {"fc", HeadShape{.vocabulary = classes, .hidden = map.channels, .bias = true, .pooled = true},
       ""});
  return model;
}

}  // namespace weir::cnn
