// The words of Philox4x32-10 in bulk: sixteen counters at once where the machine has AVX-512.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/mask_words.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored \
    "-Wuninitialized"  // GCC 12's own header trips it in every AVX-512 intrinsic
#endif
#endif

namespace weir::cpu {
namespace {

void one_by_one(const DropoutMask& mask, std::uint64_t first_block, std::uint32_t* words) {
  for (std::uint64_t block = 0; block < kWordsAtOnce / 4; ++block) {
    const PhiloxBlock made = mask.block(first_block + block);
    for (int w = 0; w < 4; ++w) words[block * 4 + static_cast<std::uint64_t>(w)] = made.word[w];
  }
}

#if defined(__x86_64__)
// High and low halves of the 16 products of 32-bit lanes; the odd lanes are multiplied apart and
// blended back.
__attribute__((target("avx512f"))) inline void multiply(__m512i a, __m512i factor, __m512i& high,
                                                        __m512i& low) {
  const __m512i even = _mm512_mul_epu32(a, factor);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), factor);
  high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
  low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
}

// Lane 4q + j works on block 4j + q, so that unpacking leaves the words of four consecutive blocks
// in each register.
__attribute__((target("avx512f"))) void sixteen_lanes(const DropoutMask& mask,
                                                      std::uint64_t first_block,
                                                      std::uint32_t* words) {
  const __m512i place = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i c0 = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(first_block)), place);
  __m512i c1 = _mm512_set1_epi32(
      static_cast<int>((static_cast<std::uint32_t>(first_block >> 32) << 16) ^ mask.microbatch));
  __m512i c2 = _mm512_set1_epi32(static_cast<int>(mask.step));
  __m512i c3 = _mm512_set1_epi32(static_cast<int>(mask.layer_and_site));
  const __m512i m0 = _mm512_set1_epi32(static_cast<int>(0xD2511F53U));
  const __m512i m1 = _mm512_set1_epi32(static_cast<int>(0xCD9E8D57U));
  auto key0 = static_cast<std::uint32_t>(mask.seed);
  auto key1 = static_cast<std::uint32_t>(mask.seed >> 32);
  // Ten rounds of Philox4x32 (Salmon et al. 2011), sixteen blocks abreast.
  for (int round = 0; round < 10; ++round) {
    __m512i high0, low0, high1, low1;
    multiply(c0, m0, high0, low0);
    multiply(c2, m1, high1, low1);
    c0 = _mm512_xor_si512(_mm512_xor_si512(high1, c1), _mm512_set1_epi32(static_cast<int>(key0)));
    c2 = _mm512_xor_si512(_mm512_xor_si512(high0, c3), _mm512_set1_epi32(static_cast<int>(key1)));
    c1 = low1;
    c3 = low0;
    // Weyl sequences: the keys of the next round.
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  // From word by word to block by block: a transpose of 4 by 4 within each quarter.
  const __m512i t0 = _mm512_unpacklo_epi32(c0, c1), t1 = _mm512_unpackhi_epi32(c0, c1);
  const __m512i t2 = _mm512_unpacklo_epi32(c2, c3), t3 = _mm512_unpackhi_epi32(c2, c3);
  _mm512_storeu_si512(words, _mm512_unpacklo_epi64(t0, t2));
  _mm512_storeu_si512(words + 16, _mm512_unpackhi_epi64(t0, t2));
  _mm512_storeu_si512(words + 32, _mm512_unpacklo_epi64(t1, t3));
  _mm512_storeu_si512(words + 48, _mm512_unpackhi_epi64(t1, t3));
}
#endif

}  // namespace

void mask_words(const DropoutMask& mask, std::uint64_t first_block, std::uint32_t* words) {
#if defined(__x86_64__)
  // Sixteen low counter words that would wrap within the group go the slow way.
  if (__builtin_cpu_supports("avx512f") &&
      static_cast<std::uint32_t>(first_block) <= 0xFFFFFFFFU - 16) {
    sixteen_lanes(mask, first_block, words);
    return;
  }
#endif
  one_by_one(mask, first_block, words);
}

}  // namespace weir::cpu
