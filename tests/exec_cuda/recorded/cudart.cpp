// The entry points of the CUDA runtime that the executor and its tests use: devices, memory,
// streams and launches. Graphs and events have a file of their own.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/exec_cuda/emulation/device.hpp"
#include "tests/exec_cuda/recorded/calls.hpp"

namespace weir::recorded {
namespace {

const void* bytes_at(const void* from, std::size_t at) {
  return static_cast<const std::byte*>(from) + at;
}

// Host memory that a device may read by itself, by its first byte; guarded by the machine's mutex.
std::map<std::uintptr_t, std::size_t>& pinned() {
  static std::map<std::uintptr_t, std::size_t> ranges;
  return ranges;
}

// Neither a device's nor pinned.
bool is_pageable(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (machine().allocation_of(address) != nullptr) return false;
  const auto after = pinned().upper_bound(address);
  if (after == pinned().begin()) return true;
  const auto& [begin, bytes] = *std::prev(after);
  return address >= begin + bytes;
}

Operation copying(void* to, const void* from, std::size_t bytes) {
  return {.what = "a copy", .work = [to, from, bytes] {
            machine().reads(from, bytes);
            machine().writes(to, bytes);
            std::memmove(to, from, bytes);
          }};
}
Operation filling(void* to, int value, std::size_t bytes) {
  return {.what = "a fill", .work = [to, value, bytes] {
            machine().writes(to, bytes);
            std::memset(to, value, bytes);
          }};
}

cudaError_t waited(Stream& stream) {
  if (stream.capture != nullptr) {
    machine().violation("a stream is waited for while it is captured");
    return failed(cudaErrorStreamCaptureUnsupported);
  }
  return machine().finish(stream) ? cudaSuccess : failed(cudaErrorLaunchTimeout);
}

// Of the runtime's own order: behind everything, and done when it returns.
cudaError_t at_once(Operation operation) {
  if (current().captures) {
    machine().violation("a call that waits while this thread captures");
    return failed(cudaErrorStreamCaptureUnsupported);
  }
  Stream& stream = *machine().find(nullptr, current().device);
  put(stream, std::move(operation));
  return waited(stream);
}

}  // namespace

cudaError_t failed(cudaError_t error) {
  current().error = error;
  return error;
}

void put(Stream& stream, Operation operation) {
  if (stream.capture == nullptr) return machine().put(stream, std::move(operation));
  Graph& graph = *stream.capture;
  // Waits and records order nodes; they are none.
  if (!operation.waits && !operation.records) {
    Clock& own = graph.clocks[stream.branch];
    if (own.size() <= stream.branch) own.resize(stream.branch + 1);
    ++own[stream.branch];
  }
  graph.nodes.push_back({stream.branch, std::move(operation)});
}

Stream* stream_here(void* handle, const char* what) {
  Stream* stream = machine().find(handle, current().device);
  if (stream != nullptr && stream->context->device != current().device) {
    machine().violation(std::string(what) + " on a stream of device " +
                        std::to_string(stream->context->device) + " while device " +
                        std::to_string(current().device) + " is current");
    return nullptr;
  }
  return stream;
}

}  // namespace weir::recorded

namespace weir::emulation {

// A launch: the arguments are copied, the kernel runs when it is its turn.
void run_grid(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes,
              cudaStream_t handle, const std::function<void()>& kernel) {
  using namespace weir::recorded;
  const std::scoped_lock lock(machine().mutex);
  if (machine().fails()) return static_cast<void>(failed(cudaErrorLaunchFailure));
  Stream* stream = stream_here(handle, name);
  if (stream == nullptr) return static_cast<void>(failed(cudaErrorInvalidResourceHandle));
  if (stream->capture != nullptr && machine().faults.capture == Faults::Capture::launch)
    return static_cast<void>(failed(cudaErrorStreamCaptureUnsupported));
  put(*stream, {.what = name, .work = [=] { run_blocks(grid, block, shared_bytes, kernel); }});
}

}  // namespace weir::emulation

using namespace weir::recorded;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  WEIR_CALL();
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  WEIR_CALL();
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  WEIR_CALL();
  *count = machine().devices;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  WEIR_CALL();
  if (device < 0 || device >= machine().devices) return failed(cudaErrorInvalidDevice);
  current().device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  WEIR_CALL();
  *properties = {};
  std::strcpy(properties->name, "recorded");
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->totalGlobalMem = std::size_t{80} << 30;
  properties->l2CacheSize = 1 << 16;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  WEIR_CALL();
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = 1 << 16;
      return cudaSuccess;
    default:
      return failed(cudaErrorInvalidValue);
  }
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  WEIR_CALL();
  *can = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  WEIR_CALL();
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  WEIR_CALL();
  *free = std::size_t{79} << 30;
  *total = std::size_t{80} << 30;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int value) {
  WEIR_CALL();
  return weir::emulation::ask_shared(value) ? cudaSuccess : cudaErrorInvalidValue;
}

// As the runtime does, these neither fail nor count.
cudaError_t cudaPeekAtLastError() { return static_cast<cudaError_t>(current().error); }
cudaError_t cudaGetLastError() {
  const auto error = static_cast<cudaError_t>(current().error);
  current().error = cudaSuccess;
  return error;
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorNotReady ? "device not ready" : "an error of the recorded runtime";
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  WEIR_CALL();
  *data = machine().allocate(bytes, current().device, nullptr);
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  WEIR_CALL();
  if (data == nullptr) return cudaSuccess;
  if (!machine().finish_all()) return failed(cudaErrorLaunchTimeout);
  if (Allocation* allocation = machine().allocation_of(reinterpret_cast<std::uintptr_t>(data)))
    machine().free(*allocation);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  WEIR_CALL();
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  pinned()[reinterpret_cast<std::uintptr_t>(*data)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  WEIR_CALL();
  // What is stuck may still read it: rather lost than freed.
  if (!machine().finish_all()) return failed(cudaErrorLaunchTimeout);
  pinned().erase(reinterpret_cast<std::uintptr_t>(data));
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  WEIR_CALL();
  *pool = reinterpret_cast<cudaMemPool_t>(new Pool{properties->location.id, {}});
  return cudaSuccess;
}
// What was not freed is: the process ends, or the test.
cudaError_t cudaMemPoolDestroy(cudaMemPool_t) {
  WEIR_CALL();
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  WEIR_CALL();
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  WEIR_CALL();
  const auto* pool = reinterpret_cast<Pool*>(handle);
  *static_cast<std::uint64_t*>(value) =
      attribute == cudaMemPoolAttrUsedMemHigh ? pool->most : pool->used;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t handle, const cudaMemAccessDesc* access,
                                 std::size_t count) {
  WEIR_CALL();
  for (std::size_t i = 0; i < count; ++i)
    reinterpret_cast<Pool*>(handle)->reach.insert(access[i].location.id);
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** data, std::size_t bytes, cudaMemPool_t handle,
                                    cudaStream_t on) {
  WEIR_CALL();
  Stream* stream = machine().find(on, current().device);
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  auto* pool = reinterpret_cast<Pool*>(handle);
  *data = machine().allocate(bytes, pool->device, pool);
  put(*stream, {.what = "an allocation", .work = [at = reinterpret_cast<std::uintptr_t>(*data)] {
                  machine().give(*machine().allocation_of(at));
                }});
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t on) {
  WEIR_CALL();
  Stream* stream = machine().find(on, current().device);
  Allocation* allocation = machine().allocation_of(reinterpret_cast<std::uintptr_t>(data));
  if (stream == nullptr || allocation == nullptr) {
    machine().violation("what is no block of a pool is freed");
    return failed(cudaErrorInvalidValue);
  }
  put(*stream, {.what = "a release", .work = [allocation] { machine().free(*allocation); }});
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t on) {
  WEIR_CALL();
  Stream* stream = machine().find(on, current().device);
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  // Pageable memory is read before the call returns, and has been written when it does (CUDA
  // Runtime API, "API synchronization behavior"): whoever fails to wait afterwards may free it.
  if (is_pageable(from)) {
    const auto* data = static_cast<const std::byte*>(from);
    const auto staged = std::make_shared<const std::vector<std::byte>>(data, data + bytes);
    Operation copy = copying(to, staged->data(), bytes);
    copy.work = [work = std::move(copy.work), staged] { work(); };
    put(*stream, std::move(copy));
    return cudaSuccess;
  }
  put(*stream, copying(to, from, bytes));
  if (is_pageable(to) && stream->capture == nullptr && !machine().finish(*stream))
    return failed(cudaErrorLaunchTimeout);
  return cudaSuccess;
}
// Of pinned memory alone, as the executor's are.
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_row, const void* from, std::size_t from_row,
                              std::size_t bytes, std::size_t rows, cudaMemcpyKind,
                              cudaStream_t on) {
  WEIR_CALL();
  Stream* stream = machine().find(on, current().device);
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  if (bytes > to_row || bytes > from_row) return failed(cudaErrorInvalidPitchValue);
  if (is_pageable(from) || is_pageable(to)) {
    machine().violation("a copy of rows from or to pageable memory");
    return failed(cudaErrorInvalidValue);
  }
  put(*stream,
      {.what = "a copy of rows", .work = [=] {
         for (std::size_t row = 0; row < rows; ++row) {
           auto* const target = static_cast<std::byte*>(to) + row * to_row;
           copying(target, static_cast<const std::byte*>(from) + row * from_row, bytes).work();
         }
       }});
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t on) {
  WEIR_CALL();
  Stream* stream = machine().find(on, current().device);
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  for (const auto& [address, device] :
       {std::pair<const void*, int>{to, to_device}, {from, from_device}}) {
    const Allocation* memory = machine().allocation_of(reinterpret_cast<std::uintptr_t>(address));
    if (memory == nullptr || memory->device != device ||
        bytes_at(address, bytes) > reinterpret_cast<void*>(memory->begin + memory->bytes))
      machine().violation("a copy between devices names a device where the memory is not");
  }
  put(*stream, copying(to, from, bytes));
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t on) {
  WEIR_CALL();
  Stream* stream = machine().find(on, current().device);
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  put(*stream, filling(to, value, bytes));
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  WEIR_CALL();
  return at_once(copying(to, from, bytes));
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  WEIR_CALL();
  return at_once(filling(to, value, bytes));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  WEIR_CALL();
  *stream =
      reinterpret_cast<cudaStream_t>(machine().make_stream(machine().primary(current().device)));
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  WEIR_CALL();
  *stream =
      reinterpret_cast<cudaStream_t>(machine().make_stream(machine().primary(current().device)));
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  WEIR_CALL();
  if (Stream* stream = machine().find(handle, current().device)) machine().end_stream(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  WEIR_CALL();
  Stream* stream = machine().find(handle, current().device);
  return stream == nullptr ? failed(cudaErrorInvalidResourceHandle) : waited(*stream);
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  WEIR_CALL();
  Stream* stream = machine().find(handle, current().device);
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  if (!stream->queue.empty()) {
    machine().progress();
    return failed(cudaErrorNotReady);
  }
  join(machine().host_clock(), stream->clock);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  WEIR_CALL();
  return machine().finish_all() ? cudaSuccess : failed(cudaErrorLaunchTimeout);
}
}
