// What a layout costs each processor, derived from one rule (Mesh-TensorFlow, Shazeer et al.,
// NeurIPS 2018, section 3): a tensor dimension on a mesh dimension is divided by its size, in every
// tensor; an einsum runs on the blocks; where a summed dimension is split, the output's block is
// all-reduced over the mesh dimension it is split on. Hence, a processor and an einsum:
//
//   computation    product of all its dimensions' local sizes       multiply-adds
//   communication  product of the output's local sizes, or 0        elements all-reduced
//   memory         product of a tensor's local sizes                elements, each tensor once
//
// No formula below knows what a batch or a weight is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "plan/layout/layout.hpp"
#include "plan/words/units.hpp"

namespace weir {

struct EinsumCost {
  layout::Powers computation;
  layout::Powers output;              // elements of the output's block
  std::vector<int> all_reduced_over;  // mesh dimensions; none: nothing is exchanged
  layout::Polynomial communication;
};

// Sums over all einsums, forward and backward, and all tensors, with their constants.
struct LayoutCost {
  layout::Symbols symbols;
  std::vector<EinsumCost> einsums;
  layout::Polynomial computation, communication, memory;
};

[[nodiscard]] LayoutCost layout_cost(const layout::Program& program, const layout::Layout& layout);

// Communication over computation, both without constants; none where the computation has more than
// one term.
[[nodiscard]] std::optional<layout::Polynomial> communication_per_computation(
    const LayoutCost& cost);

// The same a processor, counted. A mesh dimension of size 1 splits nothing, so nothing is reduced
// over it.
struct LayoutNumbers {
  double multiply_adds = 0;
  int all_reduces = 0;
  double reduced_elements = 0;  // of the blocks that are all-reduced
  double exchanged_elements =
      0;  // read from other processors: 2 (g-1)/g of a block for g of them, the least there is
  double elementwise =
      0;         // elements that relu and its gradient touch; no part of the paper's computation
  Bytes memory;  // fp32
};
[[nodiscard]] LayoutNumbers layout_numbers(const layout::Program& program,
                                           const layout::Layout& layout);

// What one core does when all are busy. An all-reduce keeps a worker busy for latency + exchanged /
// bandwidth, and makes it wait besides, once for each.
struct LayoutRates {
  FlopsPerSecond products;
  double elementwise_per_s = 0;  // elements
  Seconds all_reduce_latency{0};
  BytesPerSecond all_reduce_bandwidth;
  Seconds all_reduce_wait{0};
};
struct LayoutTime {
  Seconds products{0}, elementwise{0}, all_reduces{0};
  Seconds waiting{0};  // for other workers
  [[nodiscard]] Seconds work() const { return products + elementwise + all_reduces; }
  [[nodiscard]] Seconds step() const { return work() + waiting; }
};
[[nodiscard]] LayoutTime layout_time(const LayoutNumbers& numbers, const LayoutRates& rates);

}  // namespace weir
