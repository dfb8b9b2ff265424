// Allocations counted as an allocator takes them.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/footprint.hpp"

#include <numeric>

#include "plan/model/tensor_list.hpp"
#include "plan/words/units.hpp"

namespace weir {
namespace {

void add(BytesByKind& to, const BytesByKind& bytes, std::int64_t times) {
  for (const MemoryKind kind : kMemoryKinds) to[kind] += times * bytes[kind];
}

}  // namespace

std::int64_t total_bytes(const BytesByKind& kinds) {
  return std::accumulate(kinds.values.begin(), kinds.values.end(), std::int64_t{0});
}

std::int64_t allocated_bytes(std::int64_t bytes, Allocator allocator) {
  if (allocator == Allocator::arena) return aligned_bytes(bytes);
  const std::int64_t step = bytes < std::int64_t{10} << 20 ? 512 : 2 << 20;
  return ceil_div(bytes, step) * step;
}

void FootprintMeter::allocate(MemoryKind kind, std::int64_t bytes) {
  const std::int64_t taken = allocated_bytes(bytes, allocator_);
  footprint_.net[kind] += taken;
  now_ += taken;
  if (now_ <= most_) return;
  most_ = now_;
  footprint_.worst = footprint_.net;
}

void FootprintMeter::release(MemoryKind kind, std::int64_t bytes) {
  const std::int64_t given_back = allocated_bytes(bytes, allocator_);
  footprint_.net[kind] -= given_back;
  now_ -= given_back;
}

void FootprintMeter::touch(MemoryKind kind, std::int64_t bytes) {
  allocate(kind, bytes);
  release(kind, bytes);
}

void FootprintMeter::hold_instead(std::int64_t bytes) {
  release(MemoryKind::workspace, held_);
  allocate(MemoryKind::workspace, held_ = bytes);
}

void FootprintMeter::repeat(const FootprintMeter& once, std::int64_t times) {
  // Where each repetition adds memory, the last has the highest peak; else the first has.
  const std::int64_t before = once.now_ > 0 ? times - 1 : 0;
  const std::int64_t most = now_ + before * once.now_ + once.most_;
  if (most > most_) {
    most_ = most;
    footprint_.worst = footprint_.net;
    add(footprint_.worst, once.footprint_.net, before);
    footprint_.worst += once.footprint_.worst;
  }
  add(footprint_.net, once.footprint_.net, times);
  now_ += times * once.now_;
}

FootprintMeter FootprintMeter::anew() const {
  FootprintMeter meter(allocator_);
  meter.held_ = held_;
  return meter;
}

}  // namespace weir
