// Host memory in whole cache lines, touched first on the core that will use it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace weir::cpu {

// `bytes` is a multiple of 64, as arenas ask. Throws std::bad_alloc. To be given back by std::free.
inline void* allocate_host_memory(std::int64_t bytes) {
  void* block = std::aligned_alloc(64, static_cast<std::size_t>(bytes));
  if (block == nullptr) throw std::bad_alloc();
  std::memset(block, 0, static_cast<std::size_t>(bytes));
  return block;
}

}  // namespace weir::cpu
