// The partitions that training software makes by itself: what the exact ones are held against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weir {

// Equal numbers of layers, the first stages one more where they do not divide (DeepSpeed's
// "uniform"). Precondition of all: 1 <= stages <= layers.
[[nodiscard]] std::vector<int> uniform_boundaries(int layers, int stages);

// Block partition of a sequence (Barany and Grinberg, Block partitions of sequences, 2013), as
// torchgpipe's balance uses it: layer times less their least, divided by their largest; equal
// numbers of layers to begin with; then, while the largest block exceeds the smallest by more than
// 1, the smallest takes a layer from its neighbour on the largest's side. What the subtraction
// hides makes many short layers look free.
[[nodiscard]] std::vector<int> block_boundaries(std::span<const std::int64_t> layer_ns, int stages);

}  // namespace weir
