// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/memory_pool.hpp"

#include <new>

namespace weir {

MemoryPool::MemoryPool(int device) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  CUDA_CHECK(cudaMemPoolCreate(&pool, &properties));
  pool_ = UniqueHandle<cudaMemPool_t, release_memory_pool>(pool);
  std::uint64_t keep_everything = UINT64_MAX;
  CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_everything));
}

void* MemoryPool::allocate(std::int64_t bytes, cudaStream_t stream) {
  void* data = nullptr;
  const cudaError_t status = cudaMallocFromPoolAsync(&data, static_cast<std::size_t>(bytes), pool_.get(), stream);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // the device still works
    throw std::bad_alloc();
  }
  CUDA_CHECK(status);
  return data;
}

}  // namespace weir
