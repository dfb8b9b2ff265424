// Dropout's random words in bulk: 16 consecutive blocks of the counter-based generator at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/training/philox.hpp"

namespace weir::cpu {

inline constexpr std::int64_t kWordsAtOnce = 64;

// words[i] = the word of element 4 * first_block + i, i in [0, 64): mask.block() sixteen times,
// with AVX-512 where there is one.
void mask_words(const DropoutMask& mask, std::uint64_t first_block, std::uint32_t* words);

}  // namespace weir::cpu
