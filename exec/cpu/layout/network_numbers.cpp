// Blocks as the plan has counted them, and Philox for what they begin with.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_numbers.hpp"

#include <algorithm>
#include <cmath>

#include "exec/cpu/layout/network_routes.hpp"
#include "exec/training/philox.hpp"
#include "plan/words/indexed.hpp"

namespace weir::cpu {
namespace {

using layout::Act;
using layout::Axes;
using layout::NetworkLayer;
using layout::Operation;

// Random numbers of one tensor: of its values, of its gradient, or of the integers of a step.
class GivenNumbers {
 public:
  enum class For : std::uint32_t { values, gradient, integers };
  GivenNumbers(std::uint64_t seed, std::size_t node, int tensor, For what, std::int64_t time = 0)
      : tensor_(static_cast<std::uint32_t>(tensor)), what_(static_cast<std::uint32_t>(what)) {
    const PhiloxBlock key =
        philox4x32_10({{low(node), high(node), low(at(time)), high(at(time))}}, seed);
    key_ = std::uint64_t{key.word[1]} << 32U | key.word[0];
  }
  // The element's, of the whole tensor; uniform below `most`.
  [[nodiscard]] std::uint64_t below(std::uint64_t most, std::int64_t element) const {
    const PhiloxBlock block =
        philox4x32_10({{low(at(element)), high(at(element)), tensor_, what_}}, key_);
    return (std::uint64_t{block.word[1]} << 32U | block.word[0]) % most;
  }

 private:
  static std::uint32_t low(std::uint64_t n) { return static_cast<std::uint32_t>(n); }
  static std::uint32_t high(std::uint64_t n) { return static_cast<std::uint32_t>(n >> 32U); }
  std::uint32_t tensor_, what_;
  std::uint64_t key_ = 0;
};

// Weights shrink with their number, so that sums over them stay of the size of what they sum: by
// the power of two nearest to the fourth root of it, so that no bit of a whole number is lost.
int halvings_of(double elements) { return static_cast<int>(std::lround(std::log2(elements) / 4)); }

constexpr int kHalvingsOfGradients = 2;

}  // namespace

NetworkNumbers::NetworkNumbers(const layout::Network& network, const layout::NetworkLayout& layout,
                               const NetworkPlan& plan, const MeshPlace& place, std::uint64_t seed)
    : nodes(plan.nodes.size()),
      network_(network),
      layout_(layout),
      plan_(plan),
      place_(place),
      seed_(seed) {
  for (std::size_t n = 0; n < nodes.size(); ++n) make_blocks(n);
  for (std::size_t n = 0; n < nodes.size(); ++n) give_weights(n);
  make_room();
}

const NetworkLayer& NetworkNumbers::layer_of(std::size_t node) const {
  return network_.layers[plan_.nodes[node].layer];
}
const LayerPlan& NetworkNumbers::plan_of(std::size_t node) const {
  return plan_.layers[plan_.nodes[node].layer];
}

void NetworkNumbers::make_blocks(std::size_t n) {
  const LayerPlan& plan = plan_of(n);
  const NetworkLayer& layer = layer_of(n);
  NodeBlocks& blocks = nodes[n];
  for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
    const std::size_t times = at(times_of(network_, layer, static_cast<int>(t)));
    const std::vector<float> zeros(at(plan.shapes[t].elements), 0.0F);
    blocks.updated.emplace_back(plan.updated[t], 0.0F);
    blocks.values.emplace_back(times, zeros);
    blocks.gradients.emplace_back(
        times, GradientParts{std::vector<GradientPart>(plan.parts[t], {0, -1, zeros})});
  }
  for (std::size_t i = 0; i < layer.operations.size(); ++i) {
    const Operation& o = layer.operations[i];
    const std::int64_t times = times_of(network_, layer, o.output);
    blocks.statistics.emplace_back(at(times), std::vector<float>(at(plan.statistics[i]), 0.0F));
    blocks.picks.emplace_back(at(times));
    if (o.act != Act::gather && o.act != Act::loss && o.act != Act::choose) continue;
    for (std::int64_t s = 0; s < times; ++s) blocks.picks[i][at(s)] = picks(n, o, s);
  }
}

void NetworkNumbers::make_room() {
  const auto most = [this](const auto& of_layer) {
    std::int64_t all = 0;
    for (const LayerPlan& layer : plan_.layers) all = std::max(all, of_layer(layer));
    return at(all);
  };
  const std::size_t rows = most([](const LayerPlan& layer) { return layer.rows; });
  for (std::size_t s = 0; s < of_rows.size(); ++s) of_rows[s].reserve(at(kRowScratch[s]) * rows);
  moved.reserve(most([](const LayerPlan& layer) { return layer.moved; }));
  for (std::size_t f = 0; f < packed.size(); ++f)
    packed[f].numbers.reserve(most([f](const LayerPlan& layer) { return layer.packed[f]; }));
}

// What no operation makes: weights, tied ones as their owners have them, and data.
void NetworkNumbers::give_weights(std::size_t n) {
  const NetworkNode& node = plan_.nodes[n];
  const NetworkLayer& layer = layer_of(n);
  const auto fill = [&](std::size_t t, const GivenNumbers& given, int halvings) {
    std::vector<float>& numbers = nodes[n].values[t][0];
    walk_whole(network_, layout_, place_, layer.tensors[t].dimensions,
               [&](std::int64_t i, std::int64_t element) {
                 const auto number = static_cast<float>(given.below(5, element)) - 2;
                 numbers[at(i)] = std::ldexp(number, -halvings);
               });
  };
  for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
    if (!is_weight(layer.tensors[t])) continue;
    // A tied weight's numbers are those of the owner, which has one repetition.
    std::size_t from = n;
    int tensor = static_cast<int>(t);
    if (plan_of(n).owners[t] >= 0) {
      const auto owner =
          std::ranges::find(plan_.nodes, at(plan_of(n).owners[t]), &NetworkNode::layer);
      from = at(owner - plan_.nodes.begin());
      tensor = plan_of(n).owned[t];
    }
    fill(t, GivenNumbers(seed_, from, tensor, GivenNumbers::For::values),
         halvings_of(whole_elements(network_, layer.tensors[t].dimensions)));
  }
  for (std::size_t g = 0; g < layer.given.size(); ++g) {
    const int tensor = layer.given[g].tensor;
    if (node.sources[g] < 0)
      fill(at(tensor), GivenNumbers(seed_, n, tensor, GivenNumbers::For::values), 0);
  }
}

void NetworkNumbers::give_gradient(std::size_t n, std::vector<float>& gradient) const {
  const int output = layer_of(n).operations.back().output;
  const GivenNumbers given(seed_, n, output, GivenNumbers::For::gradient);
  walk_whole(network_, layout_, place_, layer_of(n).tensors[at(output)].dimensions,
             [&](std::int64_t i, std::int64_t element) {
               const auto number = static_cast<float>(given.below(5, element)) - 2;
               gradient[at(i)] = std::ldexp(number, -kHalvingsOfGradients);
             });
}

// The integers that a gather or a loss is given, by row of its output: of the whole tensor's rows,
// so that every layout has the same.
std::vector<std::int64_t> NetworkNumbers::picks(std::size_t n, const Operation& o,
                                                std::int64_t time) const {
  const NetworkLayer& layer = layer_of(n);
  std::vector<int> left = layer.tensors[at(o.output)].dimensions;
  if (o.act == Act::gather) {
    for (const int d : layer.tensors[at(o.inputs[0])].dimensions) std::erase(left, d);
  }
  if (o.act == Act::choose) return choices(left, network_.dimensions[at(o.over)].size);
  const GivenNumbers given(seed_, n, o.output, GivenNumbers::For::integers, time);
  const auto most = static_cast<std::uint64_t>(network_.dimensions[at(o.over)].size);
  std::vector<std::int64_t> picks;
  picks.reserve(at(BlockShape(network_, layout_, left).elements));
  walk_whole(network_, layout_, place_, left, [&](std::int64_t, std::int64_t row) {
    picks.push_back(static_cast<std::int64_t>(given.below(most, row)));
  });
  return picks;
}

// The experts that tokens visit, where routes take them.
std::vector<std::int64_t> NetworkNumbers::choices(const std::vector<int>& visits,
                                                  std::int64_t experts) const {
  std::vector<std::int64_t> choices;
  choices.reserve(at(BlockShape(network_, layout_, visits).elements));
  walk_whole(network_, layout_, place_, visits, [&](std::int64_t, std::int64_t visit) {
    choices.push_back(expert_of(visit, experts));
  });
  return choices;
}

void NetworkNumbers::clear_gradients() {
  for (NodeBlocks& blocks : nodes) {
    for (auto& of_tensor : blocks.gradients) {
      for (GradientParts& parts : of_tensor) {
        for (GradientPart& part : parts.parts()) std::ranges::fill(part.numbers, 0.0F);
        parts.used = 0;
      }
    }
  }
}

double NetworkNumbers::bytes() const {
  std::size_t floats = moved.capacity(), integers = 0;
  for (const PackingRoom& room : packed) floats += room.numbers.capacity();
  for (const auto& sums : of_rows) floats += sums.capacity();
  for (const NodeBlocks& blocks : nodes) {
    for (const auto& updated : blocks.updated) floats += updated.capacity();
    for (const auto& of_tensor : blocks.values) {
      for (const auto& one : of_tensor) floats += one.capacity();
    }
    for (const auto& of_tensor : blocks.gradients) {
      for (const GradientParts& parts : of_tensor) {
        for (const GradientPart& part : parts.all) floats += part.numbers.capacity();
      }
    }
    for (const auto& of_operation : blocks.statistics) {
      for (const auto& one : of_operation) floats += one.capacity();
    }
    for (const auto& of_operation : blocks.picks) {
      for (const auto& one : of_operation) integers += one.capacity();
    }
  }
  return 4 * static_cast<double>(floats) + 8 * static_cast<double>(integers);
}

}  // namespace weir::cpu
