// What software may hold of a plan whose software nobody named: the leanest and the amplest that is
// in use, as rules of memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/job/plan.hpp"
#include "plan/job/stack.hpp"

namespace weir {

// Gradients are summed in the number format (2 bytes a parameter of 16 bits, as DeepSpeed's), both
// moments are kept in it and weights have no copy in fp32 (PyTorch's AdamW of a model in 16 bits:
// NVIDIA-NeMo/Automodel@01926a5c; Megatron's precision-aware optimizer
// comes near), products in FP8 read the only weights there are, and the allocator wastes nothing.
[[nodiscard]] Stack leanest(Stack stack, const Plan& plan);

// Nothing is fused but what the plan says, as in PyTorch without extensions
// (huggingface/transformers@002272831fba modeling_llama.py): both norms of a block keep their input
// in fp32 and their result before the weight in the number format, 4 + 2 bytes each; the gate's
// result is kept beside what it is multiplied with. The loss is of fp32 logits with a shifted copy
// and their softmax, 12 bytes a logit at the worst of the forward, of which 8 stay, and 16 with
// their gradients in the backward. Under tensor parallelism every device holds the logits of the
// whole vocabulary (Aleph-Alpha/scaling@01b9d21dbafb model/losses/cross_entropy.py).
[[nodiscard]] Stack amplest(Stack stack, const Plan& plan);

}  // namespace weir
