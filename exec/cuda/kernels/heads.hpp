// Queries and keys between the product that makes them and attention, in place: their norms
// (Qwen3's), and their turn to rotary positions (exec/training/rotary_tables). Values stay as they
// are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/sums.hpp"
#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

constexpr std::int64_t kMostHeadWidth = 256;

// A row of qkv: the queries' heads, the keys', and as many values', each of d numbers, d even and
// at most kMostHeadWidth. Row r stands at position r % s.
struct Heads {
  std::int64_t rows = 0, s = 0, queries = 0, keys = 0, d = 0;
  const float* table = nullptr;  // s x d: of a position d / 2 cosines, then the sines
  [[nodiscard]] WEIR_HOST_DEVICE std::int64_t turned() const { return queries + keys; }
};

// The way back is the gradient's: a turn is orthogonal.
enum class Turn : std::uint8_t { forth, back };
// Precondition: there is a table.
template <class E>
void turn_heads(const Heads& heads, Turn turn, E* qkv, cudaStream_t stream);

// What norms of heads read and keep.
template <class E>
struct HeadNorms {
  const E *query_gain, *key_gain;  // d numbers
  float epsilon;
  E* raw;             // [rows, queries + keys, d]: what was there before
  float* statistics;  // [rows, queries + keys]: 1 / rms
};
// x = x / rms(x) * gain of each head, and then its turn, where there is a table.
template <class E>
void norm_heads(const Heads& heads, const HeadNorms<E>& norms, E* qkv, cudaStream_t stream);

// From the gradients of what norm_heads gave to those of what it read; and, overwritten, the gains'
// gradients, d numbers each, summed over rows and heads.
template <class E>
struct HeadNormGradients {
  HeadNorms<E> norms;
  float *query_gain, *key_gain;
  float* partials;  // 2 * d * partials_of(rows)
};
template <class E>
void norm_heads_gradient(const Heads& heads, const HeadNormGradients<E>& gradients, E* d_qkv,
                         cudaStream_t stream);

}  // namespace weir::cuda
