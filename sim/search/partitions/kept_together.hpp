// Layers that no boundary parts: the blocks that predict further tokens, which the trainer that has
// them keeps on one stage (Megatron-Core, core/transformer/pipeline_parallel_layer_layout.py).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "plan/model/model.hpp"

namespace weir {

[[nodiscard]] bool keeps_together(const Model& model, std::span<const int> boundaries);

// The boundaries, those that would part such layers moved before the first of them, and what then
// stands in their way further ahead; as they are where there are too few layers before it.
// Precondition: they ascend.
[[nodiscard]] std::vector<int> kept_together(const Model& model, std::vector<int> boundaries);

}  // namespace weir
