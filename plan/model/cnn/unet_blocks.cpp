// The U-Net whose layers are levels that can be executed. A level's skipped map is stashed behind
// the layer's own output, in one packed row of numbers a sample, and relayed by every layer in
// between until the level on the way up takes it off, so that a boundary may fall anywhere:
//
//   encoder.0    images             -> [x1 | s0]
//   encoder.1    [x1 | s0]          -> [x2 | s1 s0]
//   bottleneck   [x2 | s1 s0]       -> [y2 | s1 s0]
//   decoder.1    [y2 | s1 s0]       -> [y1 | s0]
//   decoder.0    [y1 | s0]          -> y0
//   segment      a class and its loss at each place
//
// Layer l's map is taken by layer 2 depth - l; what a plan sends past stages directly their layers
// do not hand on (plan/model/cnn/stashes). A level is B times convolution, batch norm and
// rectifier.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/model/cnn/cell_builder.hpp"
#include "plan/model/cnn/network.hpp"

namespace weir::cnn {
namespace {

// What a layer hands on: a map, and behind it the stashed ones, the latest first.
struct Packed {
  FeatureMap map;
  std::vector<FeatureMap> stashed;
  [[nodiscard]] std::int64_t behind() const {
    std::int64_t numbers = 0;
    for (const FeatureMap& each : stashed) numbers += each.numbers();
    return numbers;
  }
  [[nodiscard]] FeatureMap row() const {
    return stashed.empty() ? map : FeatureMap{map.numbers() + behind(), 1, 1};
  }
};

int convolutions(CellBuilder& cell, int value, std::int64_t inner, std::int64_t outer,
                 std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t channels = i + 1 == count ? outer : inner;
    value = cell.convolution(fmt::format("conv{}", i), value, {.count = channels}, square(3));
    value = cell.batch_norm(fmt::format("bn{}", i), value);
    value = cell.relu(fmt::format("relu{}", i), value);
  }
  return value;
}

// The map of the layer's input.
int front(CellBuilder& cell, const Packed& input) {
  return input.stashed.empty() ? 0 : cell.slice("front", 0, 0, input.map);
}

// `value`, then what is stashed from number `from` of the input's row on, as it is.
void relay(CellBuilder& cell, std::vector<int> values, const Packed& input, std::int64_t from) {
  const std::int64_t rest = input.row().numbers() - from;
  if (!input.stashed.empty() && rest > 0)
    values.push_back(cell.slice("stashed", 0, from, {rest, 1, 1}));
  if (values.size() > 1) cell.pack("pack", std::move(values));
}

}  // namespace

Model unet_blocks(const UNet& sizes, const Image& image) {
  Model model;
  Packed at{{image.channels, image.side, image.side}, {}};
  std::int64_t channels = sizes.channels;
  // Down: the map goes on pooled, and as it was behind that in the row.
  for (std::int64_t level = 0; level < sizes.depth; ++level, channels *= 2) {
    CellBuilder cell(at.row(), level == 0);
    const int made = convolutions(cell, front(cell, at), channels, channels, sizes.convolutions);
    const FeatureMap skipped = cell.map(made);
    const int down = cell.max_pool(
        "down", made,
        {.height = 2, .width = 2, .stride_y = 2, .stride_x = 2, .pad_y = 0, .pad_x = 0});
    const FeatureMap smaller = cell.map(down);
    relay(cell, {down, made}, at, at.map.numbers());
    at.map = smaller;
    at.stashed.insert(at.stashed.begin(), skipped);
    model.stashes.push_back({static_cast<std::int32_t>(level),
                             static_cast<std::int32_t>(2 * sizes.depth - level),
                             skipped.numbers()});
    model.layers.push_back({fmt::format("encoder.{}", level), cell.take(), "level"});
  }
  // The lowest level stashes nothing and takes nothing off.
  CellBuilder middle(at.row());
  const int made =
      convolutions(middle, front(middle, at), channels, channels / 2, sizes.convolutions);
  const FeatureMap lowest = middle.map(made);
  relay(middle, {made}, at, at.map.numbers());
  at.map = lowest;
  model.layers.push_back({"bottleneck", middle.take(), "level"});
  // Up: the latest stash is the level's own, and what is behind it goes on.
  for (std::int64_t level = sizes.depth; level-- > 0;) {
    channels /= 2;
    CellBuilder cell(at.row());
    const FeatureMap skipped = at.stashed.front();
    const int up = cell.upsample("up", front(cell, at), 2);
    const int taken = cell.slice("skip", 0, at.map.numbers(), skipped);
    const int out = convolutions(cell, cell.concat("concat", {up, taken}), channels / 2,
                                 channels / 2, sizes.convolutions);
    const FeatureMap larger = cell.map(out);
    relay(cell, {out}, at, at.map.numbers() + skipped.numbers());
    at.map = larger;
    at.stashed.erase(at.stashed.begin());
    model.layers.push_back({fmt::format("decoder.{}", level), cell.take(), "level"});
  }
  model.layers.push_back({"segment",
                          HeadShape{.vocabulary = sizes.outputs,
                                    .hidden = at.map.channels,
                                    .bias = true,
                                    .places = at.map.places()},
                          ""});
  return model;
}

}  // namespace weir::cnn
