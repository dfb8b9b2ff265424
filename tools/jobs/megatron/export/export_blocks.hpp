// A model's blocks as Megatron-LM's arguments can say them: alike in all but this, that some are
// dense and the others of experts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/jobs/job/export.hpp"

namespace weir {

struct MegatronBlocks {
  Decoder decoder;             // its block is one with experts, where there are any
  std::int64_t dense_ffn = 0;  // of the dense blocks beside them; 0: there are none
  std::vector<bool> sparse;    // whether each has experts, where some have none; else empty
};

// Throws InputError where blocks differ in anything else, which it names, where the model is no
// embedding, blocks, norm and head, and as require_words() does.
[[nodiscard]] MegatronBlocks megatron_blocks(const ResolvedPlan& loaded);

// Python's list as --moe-layer-freq takes it, a run of equal blocks each: ([0]*3+[1]*58).
[[nodiscard]] std::string layer_frequencies(const std::vector<bool>& sparse);

}  // namespace weir
