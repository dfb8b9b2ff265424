// The counter-based generator of everything random in training: Philox4x32-10 (Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011). A number is a pure function of what it
// is for, so re-materialisation, every K, partition and schedule, and the CPU and CUDA kernels,
// draw the same dropout masks.
//
// This header is read by the CPU kernels and by nvcc: C++17, nothing but <cstdint>.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define WEIR_HOST_DEVICE __host__ __device__
#else
#define WEIR_HOST_DEVICE
#endif

namespace weir {

struct PhiloxBlock {
  std::uint32_t word[4];
};

WEIR_HOST_DEVICE inline PhiloxBlock philox4x32_10(PhiloxBlock counter, std::uint64_t key) {
  auto key_low = static_cast<std::uint32_t>(key);
  auto key_high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter.word[2];
    counter = PhiloxBlock{{static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key_low,
                           static_cast<std::uint32_t>(product1),
                           static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key_high,
                           static_cast<std::uint32_t>(product0)}};
    key_low += 0x9E3779B9U;
    key_high += 0xBB67AE85U;
  }
  return counter;
}

// Where inside a layer a mask is used; a layer may have several.
enum class DropoutSite : std::uint32_t { embedding, attention, attention_output, mlp_output };

// One dropout mask: the numbers of (seed, step, micro-batch, layer, site), indexed by the element's
// row-major position in the micro-batch's tensor. Element i uses word i % 4 of block i / 4.
struct DropoutMask {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t microbatch = 0;
  std::uint32_t layer_and_site = 0;
  std::uint32_t drop_below = 0;  // an element is dropped when its number is below this
  float scale = 1;               // of the elements kept: 1 / (1 - probability)
  // Of a tensor that is a run of a larger one's elements, whose numbers these are: those before it,
  // by fours.
  std::uint64_t first_block = 0;

  [[nodiscard]] WEIR_HOST_DEVICE PhiloxBlock block(std::uint64_t of_element) const {
    const std::uint64_t index = first_block + of_element;
    return philox4x32_10(PhiloxBlock{{static_cast<std::uint32_t>(index),
                                      (static_cast<std::uint32_t>(index >> 32) << 16) ^ microbatch,
                                      step, layer_and_site}},
                         seed);
  }
  // scale where element i is kept, 0 where it is dropped.
  [[nodiscard]] WEIR_HOST_DEVICE float factor(std::uint64_t element) const {
    return block(element / 4).word[element % 4] < drop_below ? 0.0F : scale;
  }
  [[nodiscard]] WEIR_HOST_DEVICE bool active() const { return drop_below != 0; }
};

// Precondition: 0 <= probability < 1; layer < 2^24.
inline DropoutMask dropout_mask(double probability, std::uint64_t seed, std::uint32_t step,
                                std::uint32_t microbatch, std::uint32_t layer, DropoutSite site) {
  DropoutMask mask;
  mask.seed = seed;
  mask.step = step;
  mask.microbatch = microbatch;
  mask.layer_and_site = layer * 8U + static_cast<std::uint32_t>(site);
  mask.drop_below = static_cast<std::uint32_t>(probability * 4294967296.0);
  mask.scale = static_cast<float>(1.0 / (1.0 - probability));
  return mask;
}

}  // namespace weir
