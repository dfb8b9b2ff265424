// Which layouts of a model's network are Megatron's tensor, sequence, data and expert parallelism,
// and the layout that these are (plan/layout/model_network says what the dimensions are).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/layout/network.hpp"

namespace weir::layout {

// Megatron's cut, as far as the network has its dimensions: "heads:m, ffn:m, vocab:m"; and what
// ZeRO divides among the replicas, its distributed optimizer.
struct MegatronCut {
  int tp = 1, dp = 1, ep = 1;  // ep: of the dp processors
  bool sequence_parallel = false;
  int zero = 0;  // 1 and 2: rules for what is kept of weights; 3: the network's weights have shards
};
// What of a layout is Megatron's cut. Throws std::invalid_argument, by the dimension that is placed
// otherwise.
[[nodiscard]] MegatronCut megatron_cut(const Network& network, const NetworkLayout& layout);
// On the mesh d (replicas of experts), e (experts), m (tensor): dimensions of size 1 are left out.
[[nodiscard]] NetworkLayout megatron_layout(const Network& network, const MegatronCut& cut);

}  // namespace weir::layout
