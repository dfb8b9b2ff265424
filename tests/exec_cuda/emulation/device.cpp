// SPDX-License-Identifier: Apache-2.0
#include "tests/exec_cuda/emulation/device.hpp"

#include <cublasLt.h>
#include <ucontext.h>

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "exec/cuda/device_info.hpp"

thread_local EmulatedIndex threadIdx, blockIdx;
thread_local dim3 blockDim, gridDim;

namespace weir::emulation {
namespace {

constexpr int kMostThreads = 1024;
constexpr unsigned kMostBlocks = 65535;  // in y and z
constexpr std::size_t kStackBytes = 96 * 1024;

struct Fiber {
  ucontext_t context;
  EmulatedIndex index;
  bool running = false;
  std::array<std::byte, 16> offered;
  std::vector<std::byte> stack;
};

thread_local std::vector<Fiber> fibers(kMostThreads);
thread_local ucontext_t scheduler;
thread_local int current = 0, count = 0;
thread_local const std::function<void()>* body = nullptr;

void run_body() {
  Fiber& own = fibers[static_cast<std::size_t>(current)];
  (*body)();
  own.running = false;
  swapcontext(&own.context, &scheduler);  // for good
}

void start(int thread) {
  Fiber& fiber = fibers[static_cast<std::size_t>(thread)];
  fiber.stack.resize(kStackBytes);
  const auto t = static_cast<unsigned>(thread);
  fiber.index = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
  fiber.running = true;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.data();
  fiber.context.uc_stack.ss_size = fiber.stack.size();
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, run_body, 0);
}

// Every thread from one meeting to the next, until all have returned.
void run_block() {
  for (int thread = 0; thread < count; ++thread) start(thread);
  for (bool any = true; any;) {
    any = false;
    for (current = 0; current < count; ++current) {
      Fiber& fiber = fibers[static_cast<std::size_t>(current)];
      if (!fiber.running) continue;
      threadIdx = fiber.index;
      swapcontext(&scheduler, &fiber.context);
      any = any || fiber.running;
    }
  }
}

}  // namespace

void run_grid(dim3 grid, dim3 block, cudaStream_t, const std::function<void()>& kernel) {
  gridDim = grid;
  blockDim = block;
  body = &kernel;
  count = static_cast<int>(block.x * block.y * block.z);
  if (count < 1 || count > kMostThreads || grid.x < 1 || grid.y < 1 || grid.y > kMostBlocks || grid.z > kMostBlocks) {
    throw std::logic_error("a launch that no device takes");
  }
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        run_block();
      }
    }
  }
}

void meet() { swapcontext(&fibers[static_cast<std::size_t>(current)].context, &scheduler); }
int self() { return current; }
int threads() { return count; }
bool running(int thread) { return fibers[static_cast<std::size_t>(thread)].running; }
void offer(const void* value, std::size_t bytes) {
  std::memcpy(fibers[static_cast<std::size_t>(current)].offered.data(), value, bytes);
}
void take(int thread, void* value, std::size_t bytes) {
  std::memcpy(value, fibers[static_cast<std::size_t>(thread)].offered.data(), bytes);
}

}  // namespace weir::emulation

namespace weir {

CudaFacts cuda_facts() {
  return {CudaDevice{.name = "emulated", .major = 9, .minor = 0, .multiprocessors = 1, .memory = Bytes(1 << 30)},
          "an emulated device"};
}

}  // namespace weir

// What the tests and the launches call of the runtime.
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
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }  // every launch is done when it returns
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the emulated device"; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "not emulated"; }
}
