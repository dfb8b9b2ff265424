// Asks driver, runtime and libraries what is there, and never fails for want of it.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/device_info.hpp"

#include <fmt/format.h>

#include "exec/cuda/attention.hpp"
#include "exec/cuda/cupti/kernel_recording.hpp"
#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/cuda/sm/sm_groups.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr int kOldestCapability = 75;  // of the code this is built with, times ten
constexpr int kTriedGroups[] = {2, 4, 8};

CudaDevice device_of(int index) {
  cudaDeviceProp p{};
  CUDA_CHECK(cudaGetDeviceProperties(&p, index));
  return {p.name,
          p.major,
          p.minor,
          p.multiProcessorCount,
          Bytes(static_cast<std::int64_t>(p.totalGlobalMem)),
          Bytes(static_cast<std::int64_t>(p.l2CacheSize))};
}

int devices_here() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess) return devices;
  static_cast<void>(cudaGetLastError());
  return 0;
}

int runtime_version() {
  int version = 0;
  CUDA_CHECK(cudaRuntimeGetVersion(&version));
  return version;
}

CudaFact driver_fact() {
  int driver = 0;
  const int runtime = runtime_version();
  const bool here = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
  const std::string toolkit = fmt::format("built with CUDA {}, runs with {}",
                                          cuda_version(CUDART_VERSION), cuda_version(runtime));
  if (!here) return {"CUDA driver", false, "none on this machine; " + toolkit};
  return {"CUDA driver", driver >= runtime,
          fmt::format("supports CUDA {}; {}", cuda_version(driver), toolkit)};
}

CudaFact device_fact(int index) {
  const CudaDevice d = device_of(index);
  const bool works = d.major * 10 + d.minor >= kOldestCapability;
  return {
      fmt::format("GPU {}", index), works,
      fmt::format("{}, capability {}.{}, {} multiprocessors, {} memory, {} second-level cache{}",
                  d.name, d.major, d.minor, d.multiprocessors, format_bytes(d.memory),
                  format_bytes(d.second_level_cache), works ? "" : "; older than 7.5")};
}

// The first device divided as a run would divide it: what it gives, not what arithmetic expects.
CudaFact groups_fact() {
  std::string got, why;
  for (const int groups : kTriedGroups) {
    const SmGroupsResult result = divide_device(0, groups);
    if (result.groups) {
      const SmSplit& split = result.groups->split();
      got += fmt::format("{}{} of {}", got.empty() ? "" : ", ", split.groups, split.size);
      if (split.even > 0) got += fmt::format(" (even clusters would give {})", split.even);
    } else {
      why = result.why;
    }
  }
  if (got.empty())
    return {"SM groups", false, why + "; stages share a GPU by streams with priorities"};
  return {"SM groups", true, "green contexts: " + got + (why.empty() ? "" : "; " + why)};
}

CudaFact peer_fact(int devices) {
  if (devices < 2) return {"peer copies", false, "one GPU"};
  int pairs = 0, reach = 0;
  for (int from = 0; from < devices; ++from) {
    for (int to = 0; to < devices; ++to) {
      if (from == to) continue;
      int can = 0;
      CUDA_CHECK(cudaDeviceCanAccessPeer(&can, from, to));
      ++pairs;
      reach += can;
    }
  }
  return {"peer copies", reach == pairs,
          fmt::format("{} of {} directed pairs of GPUs reach each other", reach, pairs)};
}

CudaFact formats_fact() {
  const CudaDevice d = device_of(0);
  const bool ampere = d.major >= 8;
  return {"bf16 and tf32", ampere,
          ampere ? "by the GPU's matrix units" : "need capability 8.0; fp32 alone here"};
}

CudaFact cublas_fact() {
  const std::size_t version = cublasLtGetVersion();
  return {"cuBLASLt", version > 0,
          fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)};
}

}  // namespace

std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

CudaFacts cuda_facts() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    // Having no driver is an answer. Its error must not be found by the next call that checks.
    static_cast<void>(cudaGetLastError());
    return {.why = "no CUDA device: this machine has no NVIDIA driver"};
  }
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    static_cast<void>(cudaGetLastError());
    const char* reason =
        status == cudaSuccess ? "the driver finds none" : cudaGetErrorString(status);
    return {.why = fmt::format("no CUDA device: {}", reason)};
  }
  const CudaDevice device = device_of(0);
  if (device.major * 10 + device.minor < kOldestCapability) {
    return {std::nullopt, fmt::format("{} has compute capability {}.{}, older than 7.5",
                                      device.name, device.major, device.minor)};
  }
  return {device,
          fmt::format("{}, capability {}.{}, {} multiprocessors, {}; fp32, tf32{}", device.name,
                      device.major, device.minor, device.multiprocessors,
                      format_bytes(device.memory), device.major >= 8 ? ", bf16" : ""),
          devices, cuda_version(runtime_version())};
}

std::vector<CudaFact> cuda_capabilities() {
  const cuda::CudnnFacts cudnn = cuda::cudnn_facts();
  std::vector<CudaFact> facts{
      driver_fact(), cublas_fact(), {"cuDNN", cudnn.present, cudnn.why}, kernel_recording_fact()};
  const int devices = devices_here();
  try {
    for (int index = 0; index < devices; ++index) facts.push_back(device_fact(index));
    if (devices > 0) {
      facts.push_back(formats_fact());
      facts.push_back(groups_fact());
      facts.push_back(peer_fact(devices));
    }
  } catch (const RunFailed& failed) {
    facts.push_back({"CUDA", false, failed.what()});
  }
  return facts;
}

}  // namespace weir
