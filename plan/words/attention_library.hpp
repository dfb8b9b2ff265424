// Libraries of fused attention, each with kernels of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/words/names.hpp"

namespace weir {

enum class AttentionLibrary : std::uint8_t {
  flash2,  // FlashAttention 2, also as PyTorch ships it
  flash3,  // FlashAttention 3
  cudnn,   // cuDNN's, which Transformer Engine takes
  flash1,  // the first FlashAttention, and of its speed the early ones written in Triton
};

inline constexpr Names<AttentionLibrary, 4> kAttentionLibraryNames{{
    {AttentionLibrary::flash2, "flash2"},
    {AttentionLibrary::flash3, "flash3"},
    {AttentionLibrary::cudnn, "cudnn"},
    {AttentionLibrary::flash1, "flash1"},
}};

}  // namespace weir
