// SPDX-License-Identifier: Apache-2.0
#include "exec/arena.hpp"

#include "plan/layer_tensors.hpp"

namespace weir {

Arena::~Arena() {
  for (const Tensor& block : taken_) source_.release(block.data, block.bytes);
}

Tensor Arena::allocate(std::int64_t bytes) {
  if (bytes == 0) return {};
  Tensor tensor{nullptr, aligned_bytes(bytes)};
  auto& blocks = free_[tensor.bytes];
  if (blocks.empty()) {
    tensor.data = static_cast<std::byte*>(source_.allocate(tensor.bytes));
    taken_.push_back(tensor);
  } else {
    tensor.data = blocks.back();
    blocks.pop_back();
  }
  count(tensor.bytes);
  return tensor;
}

void Arena::release(Tensor& tensor) noexcept {
  if (!tensor) return;
  free_[tensor.bytes].push_back(tensor.data);
  count(-tensor.bytes);
  tensor = {};
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
