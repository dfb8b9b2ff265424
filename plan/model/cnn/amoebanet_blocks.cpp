// AmoebaNet-D whose layers are cells that can be executed. A cell reads the outputs of the two
// layers before it: what the farther one gave lies behind the nearer one's output, in one packed
// row of numbers a sample, so that a boundary may fall anywhere:
//
//   stem               images   -> x0
//   stem.reduction1    x0       -> [x1 | x0]
//   stem.reduction2    [x1|x0]  -> [x2 | x1]
//   ...
//   the last cell      [x|w]    -> y
//   avgpool, classify
//
// plan/model/cnn/genotype has what a cell is made of.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "plan/model/cnn/cell_builder.hpp"
#include "plan/model/cnn/genotype.hpp"
#include "plan/model/cnn/network.hpp"

namespace weir::cnn {
namespace {

using genotype::Operation;

struct Step {
  std::int64_t channels;
  Window window;
};

// Rectifier, convolution and norm, in this order, for each step.
int rectified_steps(CellBuilder& cell, const std::string& name, int value,
                    std::initializer_list<Step> steps) {
  int number = 1;
  for (const Step& step : steps) {
    value = cell.relu(fmt::format("{}.relu{}", name, number), value);
    value = cell.convolution(fmt::format("{}.conv{}", name, number), value,
                             {.count = step.channels}, step.window);
    value = cell.batch_norm(fmt::format("{}.bn{}", name, number), value);
    ++number;
  }
  return value;
}

// Halves the map: half of the channels from its even places, half from its odd ones.
int halved(CellBuilder& cell, const std::string& name, int value, std::int64_t channels) {
  const int rectified = cell.relu(name + ".relu", value);
  const int odd = cell.subsample(name + ".odd", rectified, 2, 1);
  const int first =
      cell.convolution(name + ".conv1", rectified, {.count = channels / 2}, square(1, 2));
  const int second = cell.convolution(name + ".conv2", odd, {.count = channels / 2}, square(1));
  return cell.batch_norm(name + ".bn", cell.concat(name + ".concat", {first, second}));
}

int operated(CellBuilder& cell, const std::string& name, Operation operation, int value,
             std::int64_t stride) {
  const std::int64_t c = cell.map(value).channels, narrow = c / 4;
  switch (operation) {
    case Operation::average_pool:
      return cell.average_pool(name + ".pool", value, square(3, stride));
    case Operation::max_pool:
      return cell.max_pool(name + ".pool", value, square(3, stride));
    case Operation::conv_1x1:
      return rectified_steps(cell, name, value, {{c, square(1, stride)}});
    case Operation::conv_3x3:
      return rectified_steps(cell, name, value,
                             {{narrow, square(1)}, {narrow, square(3, stride)}, {c, square(1)}});
    case Operation::conv_1x7_7x1:
      return rectified_steps(cell, name, value,
                             {{narrow, square(1)},
                              {narrow, {.width = 7, .stride_x = stride}},
                              {narrow, {.height = 7, .stride_y = stride}},
                              {c, square(1)}});
    case Operation::none:
      break;
  }
  return value;
}

// What a layer hands on: its own output, and behind it that of the layer before it, if there is
// one.
struct Pair {
  FeatureMap nearer;
  bool reduced = false;  // the nearer one is a reduction cell's
  std::optional<FeatureMap> before;
  [[nodiscard]] FeatureMap row() const {
    return before ? FeatureMap{nearer.numbers() + before->numbers(), 1, 1} : nearer;
  }
};

// The operations of a cell of so many channels; returns the value of its output and that of the
// nearer input.
std::pair<int, int> operations_of(CellBuilder& cell, const Pair& input, std::int64_t channels,
                                  const genotype::Cell& made_of, std::int64_t stride) {
  const int nearer = input.before ? cell.slice("nearer", 0, 0, input.nearer) : 0;
  const int before =
      input.before ? cell.slice("before", 0, input.nearer.numbers(), *input.before) : 0;
  std::vector<int> states{rectified_steps(cell, "state0", nearer, {{channels, square(1)}})};
  // Both states need one size: the farther map is halved or widened where it has another.
  if (input.reduced) {
    states.push_back(halved(cell, "state1", before, channels));
  } else if (cell.map(before).channels != channels) {
    states.push_back(rectified_steps(cell, "state1", before, {{channels, square(1)}}));
  } else {
    states.push_back(before);
  }
  // Every two inputs, each through its operation, are added up to a new state.
  for (std::size_t i = 0; i < made_of.inputs.size(); i += 2) {
    std::vector<int> summands;
    for (const std::size_t k : {i, i + 1}) {
      const auto [state, operation] = made_of.inputs[k];
      const std::string name = fmt::format("state{}.{}", states.size(), k - i);
      summands.push_back(operated(cell, name, operation, states[state], state < 2 ? stride : 1));
    }
    states.push_back(cell.add(fmt::format("state{}", states.size()), std::move(summands)));
  }
  std::vector<int> outputs;
  for (const std::size_t state : made_of.outputs) outputs.push_back(states[state]);
  return {cell.concat("output", std::move(outputs)), nearer};
}

class CellSequence {
 public:
  CellSequence(std::int64_t filters, const Image& image) : channels_(filters / 4) {
    CellBuilder stem({image.channels, image.side, image.side}, true);
    at_.nearer = stem.map(rectified_steps(stem, "stem", 0, {{channels_, square(3, 2)}}));
    model_.layers.push_back({"stem", stem.take(), "stem"});
  }

  void reduce(const std::string& name) {
    channels_ *= 2;
    append(name, "reduction", genotype::kReduction, 2);
  }
  void repeat(const std::string& name, std::int64_t cells) {
    for (std::int64_t i = 0; i < cells; ++i)
      append(fmt::format("{}.{}", name, i), "cell", genotype::kNormal, 1);
  }
  // As `repeat`, and nothing reads two layers behind it.
  void last(const std::string& name, std::int64_t cells) {
    repeat(name, cells - 1);
    packs_ = false;
    append(fmt::format("{}.{}", name, cells - 1), "cell", genotype::kNormal, 1);
  }

  Model finish(std::int64_t classes) {
    CellBuilder pool(at_.nearer);
    pool.global_pool("avgpool", 0);
    model_.layers.push_back({"avgpool", pool.take(), "pool"});
    model_.layers.push_back(
        {"classify",
         HeadShape{
             .vocabulary = classes, .hidden = at_.nearer.channels, .bias = true, .pooled = true},
         ""});
    return std::move(model_);
  }

 private:
  void append(const std::string& name, const std::string& label, const genotype::Cell& made_of,
              std::int64_t stride) {
    CellBuilder cell(at_.row());
    // The nearer input goes along, for the cell after the next.
    const auto [output, nearer] = operations_of(cell, at_, channels_, made_of, stride);
    const FeatureMap map = cell.map(output);
    if (packs_) cell.pack("pack", {output, nearer});
    model_.layers.push_back({name, cell.take(), label});
    at_ = {map, stride > 1, packs_ ? std::optional(at_.nearer) : std::nullopt};
  }

  Model model_;
  Pair at_;
  std::int64_t channels_;
  bool packs_ = true;  // a cell comes behind
};

}  // namespace

Model amoebanet_d_blocks(std::int64_t cells, std::int64_t filters, const Image& image,
                         std::int64_t classes) {
  CellSequence sequence(filters, image);
  sequence.reduce("stem.reduction1");
  sequence.reduce("stem.reduction2");
  sequence.repeat("cell1", cells / 3);
  sequence.reduce("cell2.reduction");
  sequence.repeat("cell3", cells / 3);
  sequence.reduce("cell4.reduction");
  sequence.last("cell5", cells / 3);
  return sequence.finish(classes);
}

}  // namespace weir::cnn
