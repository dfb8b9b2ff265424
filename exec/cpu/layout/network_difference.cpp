// Each element of a tensor on each processor beside the same one of the unsplit computation.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_difference.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "exec/cpu/layout/network_plan.hpp"
#include "exec/cpu/layout/network_processor.hpp"
#include "plan/words/indexed.hpp"

namespace weir::cpu {
namespace {

using layout::Act;
using layout::NetworkLayer;
using layout::Role;

// The largest of the numbers that a gradient adds up as they are, those of a bias. Their sum may
// cancel, as that of keys' biases does under a softmax: what is left is their rounding.
float largest_summand(const NetworkLayer& layer, const NodeBlocks& blocks, int tensor) {
  float largest = 0;
  for (const layout::Operation& o : layer.operations) {
    const bool linear = o.act == Act::add || o.act == Act::move;
    const bool shift = o.act == Act::norm && o.inputs.size() > 2 && o.inputs[2] == tensor;
    if (!shift && (!linear || std::ranges::find(o.inputs, tensor) == o.inputs.end())) continue;
    for (const GradientParts& made : blocks.gradients[at(o.output)]) {
      for (const GradientPart& part : made.parts()) {
        for (const float number : part.numbers) largest = std::max(largest, std::abs(number));
      }
    }
    largest = std::max(largest, largest_summand(layer, blocks, o.output));
  }
  return largest;
}

}  // namespace

std::vector<TensorApart> tensors_apart(const layout::Network& network,
                                       const layout::NetworkLayout& layout, const NetworkPlan& plan,
                                       const std::vector<const NetworkProcessor*>& processors,
                                       const std::vector<NodeBlocks>& truth) {
  std::vector<TensorApart> all;
  const auto compare = [&](const layout::NetworkTensor& tensor, Apart& apart, const auto& of) {
    for (const NetworkProcessor* processor : processors) {
      walk_whole(network, layout, processor->place(), tensor.dimensions,
                 [&](std::int64_t i, std::int64_t from) {
                   const auto [mine, its] = of(processor->nodes());
                   apart.compare(mine[at(i)], its[at(from)]);
                 });
    }
  };
  for (std::size_t n = 0; n < plan.nodes.size(); ++n) {
    const NetworkNode& node = plan.nodes[n];
    const NetworkLayer& layer = network.layers[node.layer];
    for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
      const layout::NetworkTensor& tensor = layer.tensors[t];
      if (plan.layers[node.layer].pending[t] == 0) {
        TensorApart& one = all.emplace_back(TensorApart{{}, node.value_reordered[t]});
        for (std::size_t s = 0; s < truth[n].values[t].size(); ++s) {
          compare(tensor, one.apart, [&](const std::vector<NodeBlocks>& nodes) {
            return std::pair(nodes[n].values[t][s].data(), truth[n].values[t][s].data());
          });
        }
      }
      const bool given = std::ranges::any_of(
          layer.given, [t](const layout::Given& g) { return g.tensor == static_cast<int>(t); });
      if ((tensor.role != Role::weight && !given) || truth[n].gradients[t][0].used == 0) continue;
      TensorApart& one = all.emplace_back(TensorApart{{}, node.gradient_reordered[t]});
      if (tensor.role == Role::weight && plan.layers[node.layer].updated[t] > 0) {
        // Of a gradient that processors share each has a part: what they make of it is compared.
        std::vector<float> updated = truth[n].values[t][0];
        const std::vector<float>& gradient = truth[n].gradients[t][0].all.front().numbers;
        for (std::size_t i = 0; i < updated.size(); ++i)
          updated[i] = stepped(updated[i], gradient[i]);
        compare(tensor, one.apart, [&](const std::vector<NodeBlocks>& nodes) {
          return std::pair(nodes[n].updated[t].data(), updated.data());
        });
        continue;
      }
      one.apart.largest = largest_summand(layer, truth[n], static_cast<int>(t));
      compare(tensor, one.apart, [&](const std::vector<NodeBlocks>& nodes) {
        return std::pair(nodes[n].gradients[t][0].all.front().numbers.data(),
                         truth[n].gradients[t][0].all.front().numbers.data());
      });
    }
  }
  return all;
}

NetworkDifference together(const std::vector<std::vector<TensorApart>>& all) {
  NetworkDifference difference;
  for (std::size_t t = 0; t < all.front().size(); ++t) {
    TensorApart one = all.front()[t];
    for (const std::vector<TensorApart>& other : all) {
      assert(other.size() == all.front().size() && "processors of one network");
      one.apart.largest = std::max(one.apart.largest, other[t].apart.largest);
      // A NaN counts.
      if (!(other[t].apart.apart <= one.apart.apart)) one.apart.apart = other[t].apart.apart;
    }
    double& worst = one.reordered ? difference.reordered : difference.in_order;
    (one.reordered ? difference.tensors_reordered : difference.tensors_in_order) += 1;
    if (!(one.apart.relative() <= worst)) worst = one.apart.relative();
  }
  return difference;
}

}  // namespace weir::cpu
