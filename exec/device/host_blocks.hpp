// Host memory in whole cache lines, touched first on the core that will use it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "exec/device/arena.hpp"
#include "exec/device/free_memory.hpp"

namespace weir {

class HostBlocks : public BlockSource {
 public:
  // `bytes` is a multiple of 64, as arenas ask.
  void* allocate(std::int64_t bytes) override {
    if (bytes >= kAsked) {
      const auto there = free_memory();
      if (there && *there < Bytes(bytes)) throw NoMemory(*there);
    }
    void* block = std::aligned_alloc(64, static_cast<std::size_t>(bytes));
    if (block == nullptr) throw std::bad_alloc();
    std::memset(block, 0, static_cast<std::size_t>(bytes));
    return block;
  }
  void release(void* block, std::int64_t) noexcept override { std::free(block); }

 private:
  static constexpr std::int64_t kAsked = std::int64_t{1} << 20;  // below, asking costs more
};

}  // namespace weir
