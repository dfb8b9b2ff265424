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
};

inline constexpr Names<AttentionLibrary, 3> kAttentionLibraryNames{{
    {AttentionLibrary::flash2, "flash2"},
    {AttentionLibrary::flash3, "flash3"},
    {AttentionLibrary::cudnn, "cudnn"},
}};

}  // namespace weir
