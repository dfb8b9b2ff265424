// All numbers that one processor of a network run holds, made before the first step, so that no
// step allocates blocks; and those that nobody computes: weights, data, integers, gradients of
// results. These follow from a seed and their place in the whole tensor alone, the same for every
// layout.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/cpu/layout/kernels/network_kernels.hpp"
#include "exec/cpu/layout/network_plan.hpp"

namespace weir::cpu {

// What has been added up of a gradient so far, over these processors a partial sum. Of a weight a
// part is one operation's, as each is reduced by itself.
struct GradientPart {
  layout::Axes partial = 0;
  int operation = -1;
  std::vector<float> numbers;
};

// Those of a tensor. All are made before the first step, as many as the plan says.
struct GradientParts {
  std::vector<GradientPart> all;
  std::size_t used = 0;  // in this step; the others are zeros
  [[nodiscard]] std::span<GradientPart> parts() { return std::span(all).first(used); }
  [[nodiscard]] std::span<const GradientPart> parts() const { return std::span(all).first(used); }
};

// A weight after a step of gradient descent: what every optimizer does to it, element by element.
[[nodiscard]] inline float stepped(float weight, float gradient) {
  constexpr float kRate = 1.0F / 64;
  return weight - kRate * gradient;
}

// One repetition of a layer; by tensor, then by step over time, where it is one of a step.
struct NodeBlocks {
  std::vector<std::vector<std::vector<float>>> values;
  std::vector<std::vector<GradientParts>> gradients;
  // By tensor, of weights that processors share the optimizer's numbers of: the new ones.
  std::vector<std::vector<float>> updated;
  // By operation, then by step. Statistics of an attention are all its shares. Picks are the
  // integers that a gather, a choice or a loss is given.
  std::vector<std::vector<std::vector<float>>> statistics;
  std::vector<std::vector<std::vector<std::int64_t>>> picks;
};

class NetworkNumbers {
 public:
  NetworkNumbers(const layout::Network& network, const layout::NetworkLayout& layout,
                 const NetworkPlan& plan, const MeshPlace& place, std::uint64_t seed);

  std::vector<NodeBlocks> nodes;
  std::array<std::vector<float>, 3> of_rows;  // scratch of operations along rows
  std::vector<float> moved;                   // and of a gradient on its way home
  std::array<PackingRoom, 2> packed;          // and of a product's factors

  [[nodiscard]] double bytes() const;
  void clear_gradients();
  // Of a node's output.
  void give_gradient(std::size_t node, std::vector<float>& gradient) const;

 private:
  void make_blocks(std::size_t node);
  void make_room();
  void give_weights(std::size_t node);
  [[nodiscard]] std::vector<std::int64_t> picks(std::size_t node, const layout::Operation& o,
                                                std::int64_t time) const;
  [[nodiscard]] std::vector<std::int64_t> choices(const std::vector<int>& visits,
                                                  std::int64_t experts) const;
  [[nodiscard]] const layout::NetworkLayer& layer_of(std::size_t node) const;
  [[nodiscard]] const LayerPlan& plan_of(std::size_t node) const;

  const layout::Network& network_;
  const layout::NetworkLayout& layout_;
  const NetworkPlan& plan_;
  const MeshPlace& place_;
  std::uint64_t seed_;
};

}  // namespace weir::cpu
