// The block whose norms stand behind the sums (the first Transformer's, and BERT's), on the CPU:
//
//   qkv = x Wqkv + b   p = softmax(q k' / sqrt d)   c = drop(p) v
//   y1 = norm(x + drop(c Wo + b))
//   u = y1 Wup + b     g = act(u)                   y = norm(y1 + drop(g Wdown + b))
//
// Both sums are kept for the norms' gradients. Behind the last norm the output's gradient is none
// of the MLP's answer, so that one is carried from I to W.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cpu/block.hpp"
#include "exec/cpu/workbench.hpp"

namespace weir::cpu {

void post_norm_forward(const BlockCall& block, const BlockSize& size, Workbench& on);
void post_norm_backward_input(const BlockCall& block, const BlockSize& size, Workbench& on);

}  // namespace weir::cpu
