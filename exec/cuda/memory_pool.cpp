// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/memory_pool.hpp"

namespace weir {
namespace {

std::int64_t read(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  std::uint64_t value = 0;
  CUDA_CHECK(cudaMemPoolGetAttribute(pool, attribute, &value));
  return static_cast<std::int64_t>(value);
}

}  // namespace

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
  int off = 0;
  CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &off));
  CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &off));
}

void* MemoryPool::allocate(std::int64_t bytes, cudaStream_t stream) {
  void* data = nullptr;
  CUDA_CHECK(cudaMallocFromPoolAsync(&data, static_cast<std::size_t>(bytes), pool_.get(), stream));
  return data;
}

void MemoryPool::release(void* data, cudaStream_t stream) { CUDA_CHECK(cudaFreeAsync(data, stream)); }

std::int64_t MemoryPool::used_high_water() const { return read(pool_.get(), cudaMemPoolAttrUsedMemHigh); }
std::int64_t MemoryPool::reserved_high_water() const { return read(pool_.get(), cudaMemPoolAttrReservedMemHigh); }

void MemoryPool::reset_high_water() {
  std::uint64_t zero = 0;
  CUDA_CHECK(cudaMemPoolSetAttribute(pool_.get(), cudaMemPoolAttrUsedMemHigh, &zero));
  CUDA_CHECK(cudaMemPoolSetAttribute(pool_.get(), cudaMemPoolAttrReservedMemHigh, &zero));
}

}  // namespace weir
