// AmoebaNet-D: a stem, two reduction cells, and three times L/3 normal cells with a reduction cell
// between. Every cell reads the outputs of the two layers before it: the nearer by sequence, the
// other by a skip.
// plan/model/cnn/genotype has what a cell is made of.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <vector>

#include "plan/model/cnn/genotype.hpp"
#include "plan/model/cnn/network.hpp"

namespace weir::cnn {
namespace {

using genotype::Operation;

// Rectifier, convolution and norm, in this order, for each. The rectified map is a new one: the
// convolution keeps it.
Work rectified_convolutions(const Map& input, std::initializer_list<Convolution> convolutions) {
  Work work{0, 0, 0, input};
  for (const Convolution& convolution : convolutions) {
    work = then(work, convolve(work.output, convolution));
    work = then(work, normalise(work.output));
  }
  return work;
}

// Halves the map: two 1x1 convolutions of stride 2, one on the odd and one on the even places, side
// by side. Together they have the weights and the FLOPs of one.
Work factorised_reduction(const Map& input, std::int64_t channels) {
  return rectified_convolutions(input, {{.channels = channels, .stride_y = 2, .stride_x = 2}});
}

// Only the states which earlier layers gave are halved; those a cell makes have their size already.
Work apply(Operation operation, const Map& input, std::int64_t stride) {
  const std::int64_t c = input.channels, narrow = input.channels / 4;
  const Map pooled{c, ceil_div(input.height, stride), ceil_div(input.width, stride)};
  switch (operation) {
    case Operation::none:
      return {0, 0, 0, input};
    case Operation::average_pool:
    case Operation::max_pool:
      return {0, 0, 0, pooled};  // the state a max pooling reads is counted by the cell, once
    case Operation::conv_1x1:
      return rectified_convolutions(input,
                                    {{.channels = c, .stride_y = stride, .stride_x = stride}});
    case Operation::conv_3x3:
      return rectified_convolutions(
          input,
          {{.channels = narrow},
           {.channels = narrow, .height = 3, .width = 3, .stride_y = stride, .stride_x = stride},
           {.channels = c}});
    case Operation::conv_1x7_7x1:
      return rectified_convolutions(input, {{.channels = narrow},
                                            {.channels = narrow, .width = 7, .stride_x = stride},
                                            {.channels = narrow, .height = 7, .stride_y = stride},
                                            {.channels = c}});
  }
  return {};
}

// A layer's output as the cells after it see it.
struct Source {
  std::int32_t layer = 0;
  Map map;
  bool reduced = false;  // by a reduction cell
};

Work cell(const Source& before, const Source& nearer, std::int64_t channels, bool reduction) {
  Work total = rectified_convolutions(nearer.map, {{.channels = channels}});
  std::vector<Map> states{total.output};
  // Behind a reduction cell the farther map is still twice as large.
  if (nearer.reduced) {
    const Work halved = factorised_reduction(before.map, channels);
    total = then(total, halved);
    states.push_back(halved.output);
  } else if (before.map.channels != channels) {
    const Work widened = rectified_convolutions(before.map, {{.channels = channels}});
    total = then(total, widened);
    states.push_back(widened.output);
  } else {
    states.push_back(before.map);
  }
  std::array<bool, 7> pooled{};
  const genotype::Cell& made_of = reduction ? genotype::kReduction : genotype::kNormal;
  for (std::size_t i = 0; i < made_of.inputs.size(); ++i) {
    const genotype::Input& input = made_of.inputs[i];
    const Work work =
        apply(input.operation, states[input.state], reduction && input.state < 2 ? 2 : 1);
    total = then(total, work);
    if (input.operation == Operation::max_pool) pooled[input.state] = true;
    // Every two inputs are added up to a new state.
    if (i % 2 == 1) states.push_back(work.output);
  }
  // A pooling's input is kept once, however many read it.
  for (std::size_t state = 0; state < states.size(); ++state) {
    if (pooled[state]) total.kept += states[state].numbers();
  }
  total.output = states.back();
  total.output.channels = channels * static_cast<std::int64_t>(made_of.outputs.size());
  return total;
}

class Builder {
 public:
  Builder(std::int64_t filters, const Image& image)
      : network_({image.channels, image.side, image.side}), channels_(filters / 4) {
    const Convolution stem{
        .channels = channels_, .height = 3, .width = 3, .stride_y = 2, .stride_x = 2};
    network_.composite("stem", "stem", rectified_convolutions(network_.map(), {stem}));
    nearer_ = before_ = {network_.last(), network_.map(), false};
  }

  void reduce(const std::string& name) {
    channels_ *= 2;
    append(name, true);
  }
  void repeat(const std::string& name, std::int64_t cells) {
    for (std::int64_t i = 0; i < cells; ++i) append(fmt::format("{}.{}", name, i), false);
  }

  Model finish(std::int64_t classes) {
    const Map map = network_.map();
    const std::int64_t weights = map.channels * classes;
    network_.composite(
        "classify", "linear",
        {weights + classes, 2 * static_cast<double>(weights), map.channels, {classes, 1, 1}});
    return network_.take();
  }

 private:
  void append(const std::string& name, bool reduction) {
    network_.composite(name, reduction ? "reduction" : "cell",
                       cell(before_, nearer_, channels_, reduction));
    // The nearer one comes by sequence; behind the stem both are the same.
    if (before_.layer != nearer_.layer) network_.skip_from(before_.layer);
    before_ = nearer_;
    nearer_ = {network_.last(), network_.map(), reduction};
  }

  Network network_;
  std::int64_t channels_;
  Source before_, nearer_;
};

}  // namespace

Model amoebanet_d(std::int64_t cells, std::int64_t filters, const Image& image,
                  std::int64_t classes) {
  Builder builder(filters, image);
  builder.reduce("stem.reduction1");
  builder.reduce("stem.reduction2");
  builder.repeat("cell1", cells / 3);
  builder.reduce("cell2.reduction");
  builder.repeat("cell3", cells / 3);
  builder.reduce("cell4.reduction");
  builder.repeat("cell5", cells / 3);
  return builder.finish(classes);
}

}  // namespace weir::cnn
