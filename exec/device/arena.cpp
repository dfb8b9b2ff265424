// SPDX-License-Identifier: Apache-2.0
#include "exec/device/arena.hpp"

#include <algorithm>
#include <iterator>

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

Tensor Arena::allocate_for(std::int64_t bytes, LaunchQueue& queue) {
  const std::int64_t size = aligned_bytes(bytes);
  const Tensor tensor{take(free_[size], size, &queue), size};
  count(size);
  return tensor;
}

std::byte* Arena::take(std::vector<Free>& blocks, std::int64_t bytes, LaunchQueue* queue) {
  const auto ready = std::find_if(blocks.rbegin(), blocks.rend(), [queue](const Free& block) {
    return block.last_use.of == nullptr || block.last_use.of == queue;
  });
  auto chosen = ready == blocks.rend() ? blocks.end() : std::prev(ready.base());
  if (chosen == blocks.end()) {
    if (blocks.size() < (settled_ ? 1 : kInTransit)) {
      auto* data = static_cast<std::byte*>(source_.allocate(bytes));
      taken_.push_back({data, bytes});
      return data;
    }
    chosen = blocks.begin();  // freed first
    queue->wait_for(chosen->last_use);
  }
  std::byte* data = chosen->data;
  blocks.erase(chosen);
  return data;
}

void Arena::release(Tensor& tensor) noexcept {
  if (tensor && action_.of != nullptr) action_.of->discard(tensor);
  release_after(tensor, action_);
}

void Arena::release_after(Tensor& tensor, const Mark& last_use) noexcept {
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

void Arena::hand_over(const Tensor& tensor, Arena& to) {
  count(-tensor.bytes);
  to.count(tensor.bytes);
}

void Arena::count(std::int64_t bytes) {
  const std::int64_t now = live_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

}  // namespace weir
