// A rank's device memory: one CUDA memory pool that keeps what it has once got. The arena above it counts the bytes and
// hands freed blocks out again, so a steady state asks the pool for nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/cuda/cuda_check.hpp"
#include "exec/cuda/unique_handle.hpp"

namespace weir {

inline void release_memory_pool(cudaMemPool_t pool) noexcept { CUDA_CHECK_NOEXCEPT(cudaMemPoolDestroy(pool)); }

class MemoryPool {
 public:
  explicit MemoryPool(int device);

  // Ordered by `stream`: usable by work put on it from now on. Throws std::bad_alloc when the device is full.
  [[nodiscard]] void* allocate(std::int64_t bytes, cudaStream_t stream);
  void release(void* data, cudaStream_t stream) noexcept { CUDA_CHECK_NOEXCEPT(cudaFreeAsync(data, stream)); }

 private:
  UniqueHandle<cudaMemPool_t, release_memory_pool> pool_;
};

}  // namespace weir
