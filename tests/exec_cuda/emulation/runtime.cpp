// What the tests and the launches call of the runtime: everything is done when it returns.
// SPDX-License-Identifier: Apache-2.0
#include <cublasLt.h>

#include <cstdlib>

#include "exec/cuda/device_info.hpp"
#include "tests/exec_cuda/emulation/device.hpp"

namespace weir::emulation {

void run_grid(const char*, dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t,
              const std::function<void()>& kernel) {
  run_blocks(grid, block, shared_bytes, kernel);
}

}  // namespace weir::emulation

namespace weir {

CudaFacts cuda_facts() {
  return {CudaDevice{.name = "emulated",
                     .major = 9,
                     .minor = 0,
                     .multiprocessors = 1,
                     .memory = Bytes(1 << 30)},
          "an emulated device"};
}

}  // namespace weir

extern "C" {
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return posix_memalign(data, 256, bytes) == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  std::memset(data, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_row, const void* from, std::size_t from_row,
                              std::size_t bytes, std::size_t rows, cudaMemcpyKind, cudaStream_t) {
  for (std::size_t row = 0; row < rows; ++row) {
    std::memcpy(static_cast<std::byte*>(to) + row * to_row,
                static_cast<const std::byte*>(from) + row * from_row, bytes);
  }
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t) {
  std::memset(data, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cudaSuccess;
}  // every launch is done when it returns
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int value) {
  return weir::emulation::ask_shared(value) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the emulated device"; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "not emulated"; }
}
