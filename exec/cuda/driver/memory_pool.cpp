// A device's pool that keeps what it has and reuses a block only behind an event.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/driver/memory_pool.hpp"

#include <new>

namespace weir {

MemoryPool::MemoryPool(int device, int devices) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  CUDA_CHECK(cudaMemPoolCreate(&pool, &properties));
  pool_ = UniqueHandle<cudaMemPool_t, release_memory_pool>(pool);
  // Blocks stay with the pool at every synchronisation: later steps need not ask the driver again.
  std::uint64_t keep_everything = UINT64_MAX;
  CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_everything));
  int on = 1, off = 0;
  // A block is used again only where an event orders it: other reuse depends on how fast the device
  // happens to be, and so would the peak.
  CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &on));
  CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &off));
  CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &off));
  std::vector<cudaMemAccessDesc> access;
  for (int other = 0; other < devices; ++other) {
    if (other == device) continue;  // its own device may anyway
    cudaMemAccessDesc one{};
    one.location.type = cudaMemLocationTypeDevice;
    one.location.id = other;
    one.flags = cudaMemAccessFlagsProtReadWrite;
    access.push_back(one);
  }
  if (!access.empty()) CUDA_CHECK(cudaMemPoolSetAccess(pool, access.data(), access.size()));
}

void* MemoryPool::allocate(std::int64_t bytes, cudaStream_t stream) {
  void* data = nullptr;
  const cudaError_t status =
      cudaMallocFromPoolAsync(&data, static_cast<std::size_t>(bytes), pool_.get(), stream);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // the device still works
    throw std::bad_alloc();
  }
  CUDA_CHECK(status);
  return data;
}

Bytes MemoryPool::peak() const { return read(cudaMemPoolAttrUsedMemHigh); }
Bytes MemoryPool::reserved() const { return read(cudaMemPoolAttrReservedMemCurrent); }

Bytes MemoryPool::read(cudaMemPoolAttr attribute) const {
  std::uint64_t bytes = 0;
  CUDA_CHECK(cudaMemPoolGetAttribute(pool_.get(), attribute, &bytes));
  return Bytes(static_cast<std::int64_t>(bytes));
}

}  // namespace weir
