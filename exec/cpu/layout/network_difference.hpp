// How far a network run's blocks are from those of the unsplit computation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "exec/cpu/layout/apart.hpp"
#include "plan/layout/network.hpp"

namespace weir::cpu {

struct NetworkPlan;
struct NodeBlocks;
class NetworkProcessor;

// Of all blocks of values, gradients of weights and of what layers are given: how far they are from
// the unsplit computation's, over the largest number of the tensor; of a bias's gradient, which may
// be 0 but for rounding, over the largest that it is the sum of.
struct NetworkDifference {
  double in_order = 0;   // tensors whose sums all keep the unsplit computation's order: 0, the same
                         // bits, or something is wrong
  double reordered = 0;  // the others
  int tensors_in_order = 0, tensors_reordered = 0;
};

// One tensor on some of the processors.
struct TensorApart {
  Apart apart;
  bool reordered = false;
};

// Of all tensors that are compared, in the network's order: these processors' blocks beside
// `truth`, the blocks of a mesh of one. All have made a step.
[[nodiscard]] std::vector<TensorApart> tensors_apart(
    const layout::Network& network, const layout::NetworkLayout& layout, const NetworkPlan& plan,
    const std::vector<const NetworkProcessor*>& processors, const std::vector<NodeBlocks>& truth);
// Of processors that were compared apart from each other.
[[nodiscard]] NetworkDifference together(const std::vector<std::vector<TensorApart>>& all);

}  // namespace weir::cpu
