// A stage's device memory: one CUDA memory pool that keeps what it has once got (no allocation from the driver in the
// steady state) and knows its high-water mark. Reuse that depends on timing is switched off, so that the same program
// has the same peak every time.
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

  // Ordered by `stream`: usable by work enqueued on it from now on, free for work enqueued on it after release.
  [[nodiscard]] void* allocate(std::int64_t bytes, cudaStream_t stream);
  void release(void* data, cudaStream_t stream);

  [[nodiscard]] std::int64_t used_high_water() const;      // bytes handed out at once, as the pool counts them
  [[nodiscard]] std::int64_t reserved_high_water() const;  // bytes held from the driver
  void reset_high_water();
  [[nodiscard]] cudaMemPool_t get() const { return pool_.get(); }

 private:
  UniqueHandle<cudaMemPool_t, release_memory_pool> pool_;
};

}  // namespace weir
