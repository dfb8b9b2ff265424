// Blocks by size, freed and taken again in launch order; live bytes and their peak.
// SPDX-License-Identifier: Apache-2.0
#include "exec/device/arena.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "plan/model/layer_tensors.hpp"

namespace weir {

Arena::~Arena() {
  for (const Tensor& block : taken_) source_.release(block.data, block.bytes);
}

Tensor Arena::allocate(std::int64_t bytes) {
  if (bytes == 0) return {};
  const std::int64_t size = aligned_bytes(bytes);
  const Tensor tensor{take(free_[size], size, action_.of), size};
  count(size);
  return tensor;
}

Tensor Arena::allocate_for(std::int64_t bytes, Stream& stream) {
  const std::int64_t size = aligned_bytes(bytes);
  const Tensor tensor{take(free_[size], size, &stream), size};
  count(size);
  return tensor;
}

std::byte* Arena::take(std::vector<Free>& blocks, std::int64_t bytes, Stream* stream) {
  // Of the blocks that need no waiting (long free, or last used on this stream) the one freed last.
  const auto ready = std::find_if(blocks.rbegin(), blocks.rend(), [stream](const Free& block) {
    return block.last_use.of == nullptr || block.last_use.of == stream;
  });
  auto chosen = ready == blocks.rend() ? blocks.end() : std::prev(ready.base());
  if (chosen == blocks.end()) {
    if (blocks.size() < (settled_ ? 1 : kInTransit)) {
      auto* data = static_cast<std::byte*>(source_.allocate(bytes));
      taken_.push_back({data, bytes});
      return data;
    }
    // Every free block is in another stream's use: wait on the device, for the one freed first.
    chosen = blocks.begin();  // freed first
    stream->wait_for(chosen->last_use);
  }
  std::byte* data = chosen->data;
  blocks.erase(chosen);
  return data;
}

void Arena::release(Tensor& tensor) noexcept {
  // The discard is launched before the event that ends the action, so whoever takes the block next
  // comes behind it.
  if (tensor && action_.of != nullptr) action_.of->discard(tensor);
  release_after(tensor, action_);
}

void Arena::release_after(Tensor& tensor, const Event& last_use) noexcept {
  if (!tensor) return;
  free_[tensor.bytes].push_back({tensor.data, last_use});
  count(-tensor.bytes);
  tensor = {};
}

void Arena::end_step() noexcept {
  action_ = {};
  settled_ = true;
  for (auto& [bytes, blocks] : free_) {
    for (Free& block : blocks) block.last_use = {};
  }
}

Arena::Books Arena::books() const { return {live_.load(std::memory_order_relaxed), free_}; }

void Arena::restore(Books&& books) noexcept {
  action_ = {};
  free_ = std::move(books.free);
  live_.store(books.live, std::memory_order_relaxed);
}

void Arena::hand_over(const Tensor& tensor, Arena& to) {
  give(tensor);
  to.take_over(tensor);
}

void Arena::count(std::int64_t bytes) {
  const std::int64_t now = live_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t peak = peak_.load(std::memory_order_relaxed);
  // Relaxed: the counts order nothing. On failure `peak` is what another thread has put there.
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

}  // namespace weir
