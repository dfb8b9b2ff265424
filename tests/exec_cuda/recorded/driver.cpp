// The driver's functions that are looked up by name: green contexts. Groups come in eights of 132
// multiprocessors, as an H100 gives them.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>

#include <map>
#include <string>

#include "tests/exec_cuda/recorded/calls.hpp"

using namespace weir::recorded;

namespace {

#define WEIR_DRIVER_CALL() WEIR_CALL_OR(CUDA_ERROR_LAUNCH_FAILED)

CUresult error_string(CUresult, const char** text) {
  *text = "an error of the recorded driver";
  return CUDA_SUCCESS;
}
CUresult device_get(CUdevice* device, int ordinal) {
  WEIR_DRIVER_CALL();
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult device_resource(CUdevice, CUdevResource* resource, CUdevResourceType type) {
  WEIR_DRIVER_CALL();
  *resource = {};
  resource->type = type;
  resource->sm.smCount = 132;
  return CUDA_SUCCESS;
}
CUresult split(CUdevResource* parts, unsigned* count, const CUdevResource* all, CUdevResource* left,
               unsigned, unsigned least) {
  WEIR_DRIVER_CALL();
  const unsigned size = (least + 7) / 8 * 8, largest = machine().faults.largest_group;
  if (largest > 0 && size > largest) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  *count = std::min(*count, all->sm.smCount / size);
  for (unsigned i = 0; i < *count; ++i) {
    parts[i] = *all;
    parts[i].sm.smCount = size;
  }
  *left = *all;
  left->sm.smCount = all->sm.smCount - *count * size;
  return CUDA_SUCCESS;
}
// A description is the number of multiprocessors.
CUresult description(CUdevResourceDesc* made, CUdevResource* parts, unsigned count) {
  WEIR_DRIVER_CALL();
  std::uintptr_t sum = 0;
  for (unsigned i = 0; i < count; ++i) sum += parts[i].sm.smCount;
  *made = reinterpret_cast<CUdevResourceDesc>(sum);
  return CUDA_SUCCESS;
}
CUresult create(CUgreenCtx* context, CUdevResourceDesc made, CUdevice device, unsigned) {
  WEIR_DRIVER_CALL();
  *context = reinterpret_cast<CUgreenCtx>(
      &machine().make_group(device, static_cast<int>(reinterpret_cast<std::uintptr_t>(made))));
  return CUDA_SUCCESS;
}
CUresult destroy(CUgreenCtx) {
  WEIR_DRIVER_CALL();
  return CUDA_SUCCESS;
}
CUresult make_stream(CUstream* stream, CUgreenCtx context, unsigned, int) {
  WEIR_DRIVER_CALL();
  *stream = reinterpret_cast<CUstream>(machine().make_stream(*reinterpret_cast<Context*>(context)));
  return CUDA_SUCCESS;
}
CUresult from_green(CUcontext* context, CUgreenCtx green) {
  WEIR_DRIVER_CALL();
  *context = reinterpret_cast<CUcontext>(green);
  return CUDA_SUCCESS;
}
CUresult push(CUcontext context) {
  WEIR_DRIVER_CALL();
  current().pushed.push_back(reinterpret_cast<Context*>(context));
  return CUDA_SUCCESS;
}
CUresult pop(CUcontext* context) {
  WEIR_DRIVER_CALL();
  if (current().pushed.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = reinterpret_cast<CUcontext>(current().pushed.back());
  current().pushed.pop_back();
  return CUDA_SUCCESS;
}

const std::map<std::string, void*>& functions() {
  static const std::map<std::string, void*> all{
      {"cuGetErrorString", reinterpret_cast<void*>(error_string)},
      {"cuDeviceGet", reinterpret_cast<void*>(device_get)},
      {"cuDeviceGetDevResource", reinterpret_cast<void*>(device_resource)},
      {"cuDevSmResourceSplitByCount", reinterpret_cast<void*>(split)},
      {"cuDevResourceGenerateDesc", reinterpret_cast<void*>(description)},
      {"cuGreenCtxCreate", reinterpret_cast<void*>(create)},
      {"cuGreenCtxDestroy", reinterpret_cast<void*>(destroy)},
      {"cuGreenCtxStreamCreate", reinterpret_cast<void*>(make_stream)},
      {"cuCtxFromGreenCtx", reinterpret_cast<void*>(from_green)},
      {"cuCtxPushCurrent", reinterpret_cast<void*>(push)},
      {"cuCtxPopCurrent", reinterpret_cast<void*>(pop)},
  };
  return all;
}

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                                        unsigned long long,
                                                        cudaDriverEntryPointQueryResult* answer) {
  WEIR_CALL();
  const auto found = functions().find(name);
  *function = found == functions().end() ? nullptr : found->second;
  *answer = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
