// The sizes of attention on one core, and where each head's parts lie.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace weir::cpu {

// Which keys a query sees: those up to its own place, or all.
enum class KeyMask : std::uint8_t { causal, none };

// Heads of d numbers; groups of heads share keys and values. Precondition: lent >= 2.
struct AttentionSize {
  std::int64_t batch = 1, s = 1, heads = 1, d = 1;
  std::int64_t kv_heads = heads;  // divides heads
  std::int64_t lent = heads * d;  // scratch memory for tiles: so many numbers a token
  // Among the heads that devices divide; a mask is drawn by all of them.
  std::int64_t first_head = 0, all_heads = heads;
  KeyMask mask = KeyMask::causal;
  [[nodiscard]] std::int64_t width() const { return heads * d; }  // of a row of the context
  [[nodiscard]] std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * d; }
  [[nodiscard]] std::int64_t group() const { return heads / kv_heads; }
  // Rows of a tile: at most 64, and so few that two tiles of rows x s fit into s x lent.
  [[nodiscard]] std::int64_t tile_rows() const;
};

// One head's place: its matrix among those of the batch here and of all devices, and where its
// parts begin.
struct AttentionHead {
  std::int64_t matrix, drawn, query, key, value, context, statistics;
  bool first_of_group;  // it overwrites the gradients of its keys and values, the others add
  AttentionHead(const AttentionSize& size, std::int64_t index);
};

template <class Visit>
void for_heads(const AttentionSize& size, Visit visit) {
  for (std::int64_t index = 0; index < size.batch * size.heads; ++index)
    visit(AttentionHead(size, index));
}

}  // namespace weir::cpu
