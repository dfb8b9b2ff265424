// A rank's device memory: one CUDA memory pool that keeps what it has once got. The arena above it
// counts the bytes of the contract and hands freed blocks out again, so a steady state asks the
// pool for nothing; the pool's own high-water mark is the measured peak. The driver may reuse a
// block only after work that an event orders before it, never by chance of timing, so the events of
// equal runs are equal. Context and libraries take memory outside the pool.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/cuda/driver/unique_handle.hpp"
#include "plan/words/units.hpp"

namespace weir {

inline void release_memory_pool(cudaMemPool_t pool) noexcept {
  CUDA_CHECK_NOEXCEPT(cudaMemPoolDestroy(pool));
}

class MemoryPool {
 public:
  // `devices`: the devices 0 ... devices - 1 may read and write what lies here; each must reach
  // this one.
  explicit MemoryPool(int device, int devices = 1);

  // Ordered by `stream`: usable by work put on it from now on. Throws std::bad_alloc when the
  // device is full.
  [[nodiscard]] void* allocate(std::int64_t bytes, cudaStream_t stream);
  void release(void* data, cudaStream_t stream) noexcept {
    CUDA_CHECK_NOEXCEPT(cudaFreeAsync(data, stream));
  }

  [[nodiscard]] Bytes peak() const;      // most bytes in use at once, as allocated
  [[nodiscard]] Bytes reserved() const;  // taken from the device now, in the driver's larger blocks

 private:
  [[nodiscard]] Bytes read(cudaMemPoolAttr attribute) const;

  UniqueHandle<cudaMemPool_t, release_memory_pool> pool_;
};

}  // namespace weir
