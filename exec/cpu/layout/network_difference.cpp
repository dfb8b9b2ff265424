// Each element of a tensor on each processor beside the same one of the unsplit computation.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_difference.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "exec/cpu/layout/network_board.hpp"
#include "exec/cpu/layout/network_numbers.hpp"
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

// A tensor of one repetition, on some processors and in the unsplit computation.
struct Compared {
  const layout::Network& network;
  const layout::NetworkLayout& layout;
  const std::vector<const NetworkProcessor*>& processors;
  const NodeBlocks& truth;
  std::size_t node = 0, tensor = 0;
  const layout::NetworkTensor& its;

  // each(blocks of the processor's, index there, index into the whole tensor)
  template <class Each>
  void all(const Each& each) const {
    for (const NetworkProcessor* processor : processors) {
      walk_whole(network, layout, processor->place(), its.dimensions,
                 [&](std::int64_t i, std::int64_t whole) {
                   each(processor->nodes()[node], at(i), at(whole));
                 });
    }
  }
  // The same of the part of a shared weight that the processor updates.
  template <class Each>
  void own_parts(const Each& each) const {
    for (const NetworkProcessor* processor : processors) {
      const NodeBlocks& mine = processor->nodes()[node];
      const SharedPart part = shared_part(layout, processor->place(), sharers_of(layout, its),
                                          std::ssize(mine.updated[tensor]));
      walk_whole(network, layout, processor->place(), its.dimensions,
                 [&](std::int64_t i, std::int64_t whole) {
                   const bool own = i >= part.begin() && i < part.begin() + part.size();
                   if (own) each(mine, at(i), at(whole));
                 });
    }
  }
  [[nodiscard]] const std::vector<float>& gradient(const NodeBlocks& blocks) const {
    return blocks.gradients[tensor][0].all.front().numbers;
  }
};

void compare_values(const Compared& c, Apart& apart) {
  for (std::size_t s = 0; s < c.truth.values[c.tensor].size(); ++s) {
    c.all([&](const NodeBlocks& mine, std::size_t i, std::size_t whole) {
      apart.compare(mine.values[c.tensor][s][i], c.truth.values[c.tensor][s][whole]);
    });
  }
}

// New weights that were gathered: where their part's processor is among these, the bits that it has
// made of its own gradient. Of the others' parts no more is known than what they are near to.
void compare_updated(const Compared& c, Apart& same, Apart& near) {
  const std::vector<float>& before = c.truth.values[c.tensor][0];
  std::vector<float> made(before.size());
  for (std::size_t i = 0; i < made.size(); ++i)
    made[i] = stepped(before[i], c.gradient(c.truth)[i]);
  c.all([&](const NodeBlocks& mine, std::size_t i, std::size_t whole) {
    near.compare(mine.updated[c.tensor][i], made[whole]);
  });
  std::vector<bool> known(before.size(), false);
  c.own_parts([&](const NodeBlocks& mine, std::size_t i, std::size_t whole) {
    made[whole] = stepped(mine.values[c.tensor][0][i], c.gradient(mine)[i]);
    known[whole] = true;
  });
  c.all([&](const NodeBlocks& mine, std::size_t i, std::size_t whole) {
    if (known[whole]) same.compare(mine.updated[c.tensor][i], made[whole]);
  });
}

}  // namespace

std::vector<TensorApart> tensors_apart(const layout::Network& network,
                                       const layout::NetworkLayout& layout, const NetworkPlan& plan,
                                       const std::vector<const NetworkProcessor*>& processors,
                                       const std::vector<NodeBlocks>& truth) {
  std::vector<TensorApart> all;
  for (std::size_t n = 0; n < plan.nodes.size(); ++n) {
    const NetworkNode& node = plan.nodes[n];
    const NetworkLayer& layer = network.layers[node.layer];
    for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
      const Compared c{network, layout, processors, truth[n], n, t, layer.tensors[t]};
      if (plan.layers[node.layer].pending[t] == 0)
        compare_values(c, all.emplace_back(TensorApart{{}, node.value_reordered[t]}).apart);
      const bool given = std::ranges::any_of(
          layer.given, [t](const layout::Given& g) { return g.tensor == static_cast<int>(t); });
      if ((c.its.role != Role::weight && !given) || truth[n].gradients[t][0].used == 0) continue;
      TensorApart one{{}, node.gradient_reordered[t]};
      one.apart.largest = largest_summand(layer, truth[n], static_cast<int>(t));
      const auto compare = [&](const NodeBlocks& mine, std::size_t i, std::size_t whole) {
        one.apart.compare(c.gradient(mine)[i], c.gradient(truth[n])[whole]);
      };
      // Of a gradient that processors share each has the sum of its part alone.
      const bool shared = plan.layers[node.layer].updated[t] > 0;
      if (shared) {
        c.own_parts(compare);
        TensorApart same{{}, false}, near{{}, one.reordered};
        compare_updated(c, same.apart, near.apart);
        all.push_back(same);
        all.push_back(near);
      } else {
        c.all(compare);
      }
      all.push_back(one);
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
