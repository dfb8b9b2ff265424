// Attention in tiles of query rows: forward with a softmax over whole rows of a tile, backward that
// makes the probabilities again from each row's log-sum-exp.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/fused_attention.hpp"

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernels.hpp"
#include "exec/cpu/kernels/vector_math.hpp"
#include "plan/words/units.hpp"

namespace weir::cpu {
namespace {

// Query rows [first, first + rows) of one head and the keys [0, keys) that they see.
struct Tile {
  std::int64_t first = 0, rows = 0, keys = 0;
  KeyMask mask = KeyMask::causal;
  // The keys that a row of it sees: a causal query sees itself and those before it.
  [[nodiscard]] std::int64_t seen(std::int64_t row) const {
    return mask == KeyMask::causal ? first + row + 1 : keys;
  }
};

// From the last rows to the first: the last tile sees every key, so it overwrites the gradients of
// keys and values and the others add to them.
template <class Visit>
void for_tiles(const AttentionSize& size, Visit visit) {
  const std::int64_t rows = size.tile_rows();
  for (std::int64_t t = ceil_div(size.s, rows); t-- > 0;) {
    const std::int64_t end = std::min(size.s, (t + 1) * rows);
    visit(Tile{t * rows, end - t * rows, size.mask == KeyMask::causal ? end : size.s, size.mask});
  }
}

// One head's gemms for a tile, on views of qkv and of the context.
struct TileGemms {
  Gemm scores, mix, d_probabilities, d_value, d_query, d_key;
  TileGemms(const AttentionSize& size, const Tile& t, bool first_of_group) {
    const std::int64_t d = size.d, c = size.width(), q = size.qkv_width();
    const bool add = !first_of_group || t.first + t.rows < size.s;
    scores = {
        .m = t.rows, .n = t.keys, .k = d, .a_row = q, .b_row = 1, .b_column = q, .c_row = t.keys};
    mix = {.m = t.rows, .n = d, .k = t.keys, .a_row = t.keys, .b_row = q, .c_row = c};
    d_probabilities = {
        .m = t.rows, .n = t.keys, .k = d, .a_row = c, .b_row = 1, .b_column = q, .c_row = t.keys};
    d_query = {.m = t.rows, .n = d, .k = t.keys, .a_row = t.keys, .b_row = q, .c_row = q};
    d_key = {
        .m = t.keys, .n = d, .k = t.rows, .a_row = 1, .a_column = t.keys, .b_row = q, .c_row = q};
    d_key.accumulate = add;
    d_value = {
        .m = t.keys, .n = d, .k = t.rows, .a_row = 1, .a_column = t.keys, .b_row = c, .c_row = q};
    d_value.accumulate = add;
  }
};

WEIR_INLINE float scale_of(const AttentionSize& size) {
  return 1.0F / std::sqrt(static_cast<float>(size.d));
}

// Scores become probabilities, zero past the keys that a row sees; statistics[row] = L.
WEIR_MULTIVERSION void tile_softmax(const Tile& t, float scale, float* x, float* statistics) {
  for (std::int64_t row = 0; row < t.rows; ++row) {
    float* p = x + row * t.keys;
    const std::int64_t n = t.seen(row);
    float largest = p[0];
    for (std::int64_t i = 1; i < n; ++i) largest = p[i] > largest ? p[i] : largest;
    // The largest score is taken off before exp, so that nothing overflows (exp of at most 0).
    for (std::int64_t i = 0; i < n; ++i) p[i] = fast_exp((p[i] - largest) * scale);
    const float sum = lane_sum(n, [p](std::int64_t i) { return p[i]; });
    const float inverse = 1.0F / sum;
    for (std::int64_t i = 0; i < n; ++i) p[i] *= inverse;
    for (std::int64_t i = n; i < t.keys; ++i) p[i] = 0.0F;
    statistics[row] = largest * scale + std::log(sum);
  }
}

// Scores become the same probabilities again.
WEIR_MULTIVERSION void tile_probabilities(const Tile& t, float scale, const float* statistics,
                                          float* x) {
  for (std::int64_t row = 0; row < t.rows; ++row) {
    float* p = x + row * t.keys;
    const std::int64_t n = t.seen(row);
    const float l = statistics[row];
    for (std::int64_t i = 0; i < n; ++i) p[i] = fast_exp(p[i] * scale - l);
    for (std::int64_t i = n; i < t.keys; ++i) p[i] = 0.0F;
  }
}

// dp becomes p (dp - D) scale with D = sum(c dc) of its row.
WEIR_MULTIVERSION void tile_score_gradient(const Tile& t, const AttentionSize& size, const float* p,
                                           const float* c, const float* dc, float* dp) {
  const float scale = scale_of(size);
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const float* ci = c + row * size.width();
    const float* dci = dc + row * size.width();
    const float sum = lane_sum(size.d, [=](std::int64_t i) { return ci[i] * dci[i]; });
    const float* q = p + row * t.keys;
    float* x = dp + row * t.keys;
    const std::int64_t n = t.seen(row);
    for (std::int64_t i = 0; i < n; ++i) x[i] = q[i] * (x[i] - sum) * scale;
    for (std::int64_t i = n; i < t.keys; ++i) x[i] = 0.0F;
  }
}

// x = x mask, the tile's rows being rows of the head's s x s matrix.
void drop_tile(const DropoutMask& mask, std::int64_t matrix, const Tile& t, std::int64_t s,
               float* x) {
  if (!mask.active()) return;
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const auto first = static_cast<std::uint64_t>((matrix * s + t.first + row) * s);
    dropout(mask, first, x + row * t.keys, t.keys, x + row * t.keys);
  }
}

template <class Visit>
void for_heads_tiles(const AttentionSize& size, Visit visit) {
  for_heads(size, [&](const AttentionHead& head) {
    for_tiles(size, [&](const Tile& tile) { visit(head, tile); });
  });
}

}  // namespace

void prepare_fused(const AttentionSize& size, Matmul& matmul) {
  for_tiles(size, [&](const Tile& t) {
    for (const bool first : {true, false}) {
      const TileGemms p(size, t, first);
      for (const Gemm& gemm : {p.scores, p.mix, p.d_probabilities, p.d_value, p.d_query, p.d_key}) {
        matmul.prepare(gemm);
      }
      if (size.group() == 1) break;
    }
  });
}

void fused_forward(const FusedAttention& a, Matmul& matmul) {
  const AttentionSize& z = a.size;
  for_heads_tiles(z, [&](const AttentionHead& head, const Tile& t) {
    const TileGemms gemms(z, t, head.first_of_group);
    // softmax(q k' scale), its dropout, and the mix of values, within one tile of scratch.
    matmul.run(gemms.scores, a.qkv + head.query + t.first * z.qkv_width(), a.qkv + head.key,
               nullptr, a.tiles);
    tile_softmax(t, scale_of(z), a.tiles, a.statistics + head.statistics + t.first);
    drop_tile(a.mask, head.drawn, t, z.s, a.tiles);
    matmul.run(gemms.mix, a.tiles, a.qkv + head.value, nullptr,
               a.context + head.context + t.first * z.width());
  });
}

void fused_backward(const FusedAttention& a, const float* d_context, float* d_qkv, Matmul& matmul) {
  const AttentionSize& z = a.size;
  float* p = a.tiles;
  float* ds = a.tiles + z.tile_rows() * z.s;
  for_heads_tiles(z, [&](const AttentionHead& head, const Tile& t) {
    const TileGemms gemms(z, t, head.first_of_group);
    const std::int64_t rows = head.query + t.first * z.qkv_width();
    const std::int64_t context = head.context + t.first * z.width();
    const float* dc = d_context + context;
    // The probabilities again, from the scores and the kept log-sum-exp of each row.
    matmul.run(gemms.scores, a.qkv + rows, a.qkv + head.key, nullptr, p);
    tile_probabilities(t, scale_of(z), a.statistics + head.statistics + t.first, p);
    // Their gradient through the mask, then through the softmax: ds = p (dp - D) scale.
    matmul.run(gemms.d_probabilities, dc, a.qkv + head.value, nullptr, ds);
    drop_tile(a.mask, head.drawn, t, z.s, ds);
    tile_score_gradient(t, z, p, a.context + context, dc, ds);
    matmul.run(gemms.d_query, ds, a.qkv + head.key, nullptr, d_qkv + rows);
    matmul.run(gemms.d_key, ds, a.qkv + rows, nullptr, d_qkv + head.key);
    // Last: the values saw the dropped probabilities, all above needs them whole.
    drop_tile(a.mask, head.drawn, t, z.s, p);
    matmul.run(gemms.d_value, p, dc, nullptr, d_qkv + head.value);
  });
}

}  // namespace weir::cpu
