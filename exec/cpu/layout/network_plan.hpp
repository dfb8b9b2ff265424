// What all processors of a network run have in common: its layers' repetitions one after the other,
// their instructions by when they run, and which tensors keep the unsplit computation's bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "exec/cpu/layout/network_blocks.hpp"
#include "plan/layout/exchanges.hpp"

namespace weir::cpu {

// Instructions before the first step over time, of each step, and behind the last; of a layer
// without steps all are in `before`.
struct Phases {
  std::vector<layout::Instruction> before, step, behind;
};

struct LayerPlan {
  Phases forward, backward;
  std::vector<BlockShape> shapes;  // by tensor, a block of one step
  std::vector<int> owners;         // of tied weights, by tensor: the layer that has it; else -1
  std::vector<int> owned;          // and the tensor there
  // At the end of a step, by tensor.
  std::vector<layout::Axes> pending;  // the value is a partial sum still: nobody reads it whole
};

// One repetition of a layer.
struct NetworkNode {
  std::size_t layer = 0;
  std::vector<int> sources;  // by given value: the node that makes it; -1: data
  bool read = false;         // by another node
  // By tensor: sums in another order than the unsplit computation's went into it.
  std::vector<bool> value_reordered, gradient_reordered;
};

struct NetworkPlan {
  std::vector<LayerPlan> layers;
  std::vector<NetworkNode> nodes;
};

[[nodiscard]] NetworkPlan network_plan(const layout::Network& network,
                                       const layout::NetworkLayout& layout);

}  // namespace weir::cpu
