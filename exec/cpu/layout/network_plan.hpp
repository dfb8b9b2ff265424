// What all processors of a network run have in common: its layers' repetitions one after the other,
// their instructions by when they run, and which tensors keep the unsplit computation's bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "exec/cpu/layout/kernels/network_blocks.hpp"
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
  std::vector<BlockShape> scores;  // by operation, of an attention: its rows' shares of keys
  std::vector<int> owners;         // of tied weights, by tensor: the layer that has it; else -1
  std::vector<int> owned;          // and the tensor there
  // At the end of a step, by tensor.
  std::vector<layout::Axes> pending;  // the value is a partial sum still: nobody reads it whole
  // What a processor needs beside the tensors' blocks, made once so that no step allocates blocks.
  std::vector<std::size_t> parts;  // by tensor: kinds of partial sums that its gradient is made of
  std::vector<std::size_t> updated;  // by tensor: numbers of a weight that is updated by parts
  std::vector<std::int64_t> statistics, picks;  // by operation: numbers and integers it has a step
  std::int64_t rows = 0;                        // of the operation that reduces most of them
  std::int64_t moved = 0;                // numbers of the largest gradient that is moved home
  std::array<std::int64_t, 2> packed{};  // of the largest first and second factor that is copied
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
// Of one repetition each: its size does not grow with `repeat`.
[[nodiscard]] std::vector<LayerPlan> layer_plans(const layout::Network& network,
                                                 const layout::NetworkLayout& layout);
// What one processor holds of all repetitions. Real numbers, for they may be beyond any machine.
struct BlockBytes {
  double numbers = 0;  // values, gradients, statistics, integers and scratch, to the byte
  double records = 0;  // where they are: about so much
};
[[nodiscard]] BlockBytes block_bytes(const layout::Network& network,
                                     const std::vector<LayerPlan>& layers);
// The one of a product's two that is not `tensor`.
[[nodiscard]] int other_factor(const layout::Operation& o, int tensor);
// A row's two numbers are summed at once, or two more such sums are needed beside it.
inline constexpr std::int64_t kRowScratch[] = {2, 1, 1};

}  // namespace weir::cpu
