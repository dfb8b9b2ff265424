// The image goes down through `depth` cells, each followed by a pooling, through one more, and up
// again, where each cell also reads what the cell of its level gave on the way down:
//
//   [cell 0]------------------ skip -----------------[cell 0] > segment
//        [cell 1]------------- skip -----------[cell 1]
//              [   ...   ]---- skip ----[  ...  ]
//                        [ bottleneck ]
//
// A cell is B times convolution, dropout, instance norm and leaky rectifier.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <vector>

#include "plan/model/cnn/network.hpp"

namespace weir::cnn {
namespace {

void append_cell(Network& network, const std::string& name, std::int64_t inner, std::int64_t outer,
                 std::int64_t convolutions) {
  for (std::int64_t i = 0; i < convolutions; ++i) {
    const std::string part = fmt::format("{}.{}", name, i);
    const std::int64_t channels = i + 1 == convolutions ? outer : inner;
    network.convolution(part + ".conv", {.channels = channels, .height = 3, .width = 3});
    network.plain(part + ".dropout", "dropout");
    network.instance_norm(part + ".norm");
    network.plain(part + ".relu", "relu");
  }
}

}  // namespace

Model unet(const UNet& sizes, const Image& image) {
  Network network({image.channels, image.side, image.side});
  std::vector<std::int32_t> stashes;
  std::vector<Map> skipped;
  std::int64_t channels = sizes.channels;
  // Down: each level's output is stashed before it is pooled.
  for (std::int64_t level = 0; level < sizes.depth; ++level, channels *= 2) {
    append_cell(network, fmt::format("encoder.{}", level), channels, channels, sizes.convolutions);
    network.plain(fmt::format("encoder.{}.skip", level), "identity");
    stashes.push_back(network.last());
    skipped.push_back(network.map());
    network.max_pool(fmt::format("encoder.{}.down", level));
  }
  // Half of its channels go up, to be put beside as many of the level above.
  append_cell(network, "bottleneck", channels, channels / 2, sizes.convolutions);
  // Up: each level takes what the same level stashed.
  for (std::int64_t level = sizes.depth; level-- > 0;) {
    channels /= 2;
    const Map low = network.map();
    const Map high = skipped[static_cast<std::size_t>(level)];
    network.plain(fmt::format("decoder.{}.up", level), "upsample",
                  {low.channels, high.height, high.width});
    network.plain(fmt::format("decoder.{}.skip", level), "concat",
                  {low.channels + high.channels, high.height, high.width});
    network.skip_from(stashes[static_cast<std::size_t>(level)]);
    append_cell(network, fmt::format("decoder.{}", level), channels / 2, channels / 2,
                sizes.convolutions);
  }
  network.convolution("segment", {.channels = sizes.outputs});
  return network.take();
}

}  // namespace weir::cnn
