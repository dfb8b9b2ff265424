// One device's part of a model as a stack keeps it: plan/model/model_part with the stack's tensors
// in place of our executor's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/job/stack.hpp"
#include "plan/model/model_part.hpp"

namespace weir {

// Whether a block is one of these.
[[nodiscard]] bool is_of(Blocks blocks, const TransformerShape& block);

// Numbers of that width for one token on one device of the split; of `keys` tokens attended to.
[[nodiscard]] double width_of(Width width, Share share, const TransformerShape& block,
                              const Split& split, std::int64_t keys);

// Of that what experts keep that every token visits: of `up` and `ffn`; 0 of other widths.
[[nodiscard]] double shared_width_of(Width width, Share share, const TransformerShape& block,
                                     const Split& split);

// Modules of which selective re-materialisation frees something that the stack keeps of the model's
// blocks and that of those `already` made again leaves, ascending, the attention core aside: that
// is selective as it stands.
[[nodiscard]] std::vector<BlockModule> rebuildable_modules(const Model& model, const Stack& stack,
                                                           ModuleSet already);

// Parameters, outputs and what crosses boundaries stay; of transformer blocks what is kept becomes
// the stack's rules, of the head its bytes a logit. Preconditions as model_part's.
[[nodiscard]] ModelPart stack_part(const Model& model, std::int64_t seq_length, Dtype dtype,
                                   const Split& split, const Stack& stack);

}  // namespace weir
