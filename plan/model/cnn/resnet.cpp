// A bottleneck as eleven layers, so that a boundary may fall inside it:
//
//   identity > conv1 > norm > relu > conv2 > norm > relu > conv3 > norm > residual > relu
//       \____________________________ skip ______________________________/
//
// `residual` adds, and where the sizes differ projects the skipped map first.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cassert>

#include "plan/model/cnn/network.hpp"

namespace weir::cnn {
namespace {

constexpr std::int64_t kExpansion = 4;  // output channels of a bottleneck over its planes

std::array<std::int64_t, 4> bottlenecks(std::int64_t depth) {
  switch (depth) {
    case 50:
      return {3, 4, 6, 3};
    case 152:
      return {3, 8, 36, 3};
    default:
      assert(depth == 101 && "the reader refuses other depths");
      return {3, 4, 23, 3};
  }
}

void append_bottleneck(Network& network, const std::string& name, std::int64_t planes,
                       std::int64_t stride) {
  const Map input = network.map();
  const Convolution widening{.channels = kExpansion * planes};
  // The block's input as a layer of its own, which the skip can start from.
  network.plain(name + ".identity", "identity");
  const std::int32_t identity = network.last();
  network.convolution(name + ".conv1", {.channels = planes});
  network.batch_norm(name + ".bn1");
  network.plain(name + ".relu1", "relu");
  network.convolution(
      name + ".conv2",
      {.channels = planes, .height = 3, .width = 3, .stride_y = stride, .stride_x = stride});
  network.batch_norm(name + ".bn2");
  network.plain(name + ".relu2", "relu");
  network.convolution(name + ".conv3", widening);
  network.batch_norm(name + ".bn3");
  if (stride != 1 || input.channels != widening.channels) {
    const Work projected =
        convolve(input, {.channels = widening.channels, .stride_y = stride, .stride_x = stride});
    network.composite(name + ".residual", "residual", then(projected, normalise(projected.output)));
  } else {
    network.plain(name + ".residual", "residual");
  }
  network.skip_from(identity);
  network.plain(name + ".relu3", "relu");
}

}  // namespace

Model resnet(std::int64_t depth, const Image& image, std::int64_t classes) {
  Network network({image.channels, image.side, image.side});
  network.convolution("conv1",
                      {.channels = 64, .height = 7, .width = 7, .stride_y = 2, .stride_x = 2});
  network.batch_norm("bn1");
  network.plain("relu", "relu");
  network.max_pool("maxpool");
  std::int64_t planes = 64;
  std::int64_t group = 1;
  for (const std::int64_t blocks : bottlenecks(depth)) {
    for (std::int64_t i = 0; i < blocks; ++i) {
      // Each group but the first begins with a halving.
      append_bottleneck(network, fmt::format("layer{}.{}", group, i), planes,
                        i == 0 && group > 1 ? 2 : 1);
    }
    planes *= 2;
    ++group;
  }
  network.average_pool("avgpool");
  network.plain("flat", "flatten");
  network.linear("fc", classes);
  return network.take();
}

}  // namespace weir::cnn
