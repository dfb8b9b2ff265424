// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/driver/cuda_check.hpp"
#include "tests/exec_cuda/running_on.hpp"

namespace weir {
namespace {

constexpr long long kCyclesABlock =
    200'000;  // about 0.1 ms: long enough that blocks spread over all there is

__global__ void note_multiprocessor(std::uint32_t* seen) {
  std::uint32_t here = 0;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(here));
  if (threadIdx.x == 0 && here < kMostMultiprocessors) atomicAdd(&seen[here], 1U);
  const long long start = clock64();
  while (clock64() - start < kCyclesABlock) {
  }
}

}  // namespace

void note_multiprocessors(std::uint32_t* seen, int blocks, cudaStream_t stream) {
  note_multiprocessor<<<static_cast<unsigned>(blocks), 32, 0, stream>>>(seen);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weir
