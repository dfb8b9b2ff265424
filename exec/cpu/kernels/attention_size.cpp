// Places of heads in the tensors of attention, and how many rows a tile has.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/attention_size.hpp"

#include <algorithm>
#include <cassert>

namespace weir::cpu {
namespace {

constexpr std::int64_t kMostTileRows = 64;

}  // namespace

std::int64_t AttentionSize::tile_rows() const {
  assert(lent >= 2 && "two tiles of one row must fit into a sample");
  return std::clamp(lent / 2, std::int64_t{1}, kMostTileRows);
}

AttentionHead::AttentionHead(const AttentionSize& size, std::int64_t index)
    : matrix(index), statistics(index * size.s) {
  const std::int64_t sample = index / size.heads, head = index % size.heads;
  drawn = sample * size.all_heads + size.first_head + head;
  const std::int64_t qkv = sample * size.s * size.qkv_width();
  query = qkv + head * size.d;
  key = qkv + (size.heads + head / size.group()) * size.d;
  value = key + size.kv_heads * size.d;
  context = sample * size.s * size.width() + head * size.d;
  first_of_group = head % size.group() == 0;
}

}  // namespace weir::cpu
