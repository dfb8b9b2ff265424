// What an action does to live bytes: allocations and releases followed to their worst moment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "costmodel/memory/memory_kind.hpp"
#include "plan/job/cluster.hpp"

namespace weir {

using BytesByKind = PerMemoryKind<std::int64_t>;
[[nodiscard]] std::int64_t total_bytes(const BytesByKind& kinds);

// What an allocator takes for a tensor: 64-byte steps in our own arena; PyTorch's caching allocator
// takes 512-byte steps, and from 10 MiB, where a tensor gets a segment of its own, 2 MiB steps
// (c10/cuda/CUDACachingAllocator: kMinBlockSize, kMinLargeAlloc, kRoundLarge). What it keeps for
// later is not counted.
[[nodiscard]] std::int64_t allocated_bytes(std::int64_t bytes, Allocator allocator);

// What one action does to the live bytes, from its start.
struct Footprint {
  BytesByKind worst;  // at the moment of most live bytes
  BytesByKind net;    // when it has ended
};

// Follows allocations and remembers the worst moment.
class FootprintMeter {
 public:
  explicit FootprintMeter(Allocator allocator) : allocator_(allocator) {}
  void allocate(MemoryKind kind, std::int64_t bytes);
  void release(MemoryKind kind, std::int64_t bytes);
  // Taken and given back at once: only the worst moment can tell.
  void touch(MemoryKind kind, std::int64_t bytes);
  // Workspace, in the place of what was held so before.
  void hold_instead(std::int64_t bytes);
  // What `once` did, so many times.
  void repeat(const FootprintMeter& once, std::int64_t times);
  // One that holds what this one does, and has met nothing yet.
  [[nodiscard]] FootprintMeter anew() const;
  [[nodiscard]] const Footprint& footprint() const { return footprint_; }

 private:
  Allocator allocator_;
  Footprint footprint_;
  std::int64_t now_ = 0, most_ = 0;  // of all kinds
  std::int64_t held_ = 0;            // by hold_instead
};

}  // namespace weir
