// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/device_info.hpp"

#include <fmt/format.h>

#include "exec/cuda/cuda_check.hpp"

namespace weir {
namespace {

constexpr int kOldestCapability = 75;  // of the code this is built with, times ten

}  // namespace

CudaFacts cuda_facts() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return {std::nullopt, "no CUDA device: this machine has no NVIDIA driver"};
  }
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    static_cast<void>(cudaGetLastError());
    const char* reason = status == cudaSuccess ? "the driver finds none" : cudaGetErrorString(status);
    return {std::nullopt, fmt::format("no CUDA device: {}", reason)};
  }
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  if (properties.major * 10 + properties.minor < kOldestCapability) {
    return {std::nullopt, fmt::format("{} has compute capability {}.{}, older than 7.5", properties.name,
                                      properties.major, properties.minor)};
  }
  const CudaDevice device{properties.name, properties.major, properties.minor, properties.multiProcessorCount,
                          Bytes(static_cast<std::int64_t>(properties.totalGlobalMem))};
  return {device,
          fmt::format("{}, capability {}.{}, {} multiprocessors, {}; fp32, tf32{}; the ranks share it by streams",
                      device.name, device.major, device.minor, device.multiprocessors, format_bytes(device.memory),
                      device.major >= 8 ? ", bf16" : "")};
}

}  // namespace weir
