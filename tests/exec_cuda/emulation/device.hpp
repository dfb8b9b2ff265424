// A device made of host code, for tests: enough of CUDA's C++ to run our kernels where there is no
// GPU. A block's threads are fibers of one host thread; blocks run one after the other. Between two
// meetings the threads of a warp, and the warps of a block, run one after the other in an order
// drawn anew each time, and shared memory is poisoned when a block first meets it. So it finds
// wrong indices, formulas and uninitialised or foreign memory, most reads of shared memory that no
// meeting parts from the write, and warps that do not all come to a meeting; it does not find what
// happens only at the same instant, or between blocks.
//
// Included before everything else in a kernel file whose launches rewrite.py has made calls of
// `run_grid`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#undef __shared__
#undef __device__
#undef __global__
#undef __host__
#undef __grid_constant__
#undef __launch_bounds__
#define __device__
#define __grid_constant__
#define __global__
#define __host__
#define __launch_bounds__(...)

struct EmulatedIndex {
  unsigned x = 0, y = 0, z = 0;
};
extern thread_local EmulatedIndex threadIdx, blockIdx;
extern thread_local dim3 blockDim, gridDim;

namespace weir::emulation {

// Complete when it returns. Throws std::logic_error for a launch that no device takes, and for a
// warp of which some threads meet and others do not.
void run_blocks(dim3 grid, dim3 block, std::size_t shared_bytes,
                const std::function<void()>& kernel);
// What a launch calls; the runtime's business (runtime.cpp, or tests/exec_cuda/recorded). `kernel`
// has copies of its arguments.
void run_grid(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes,
              cudaStream_t stream, const std::function<void()>& kernel);
// Of a block, all threads that have not returned meet; of a warp, all.
enum class Meeting : std::uint8_t { none, warp, block };
void meet(Meeting whom);
void poison_once_a_block(void* array, std::size_t bytes);
void* dynamic_shared();  // the bytes that the launch asked for
// A kernel asked for more than every device gives unasked; of whichever kernel, it is kept. Whether
// a device of 8.6 has it, the least that those from 8.0 on give.
bool ask_shared(int bytes);
int self();  // which thread of the block
// Where a thread leaves what others read behind their meeting: so many bytes.
constexpr std::size_t kOfferedBytes = 16;
std::byte* offered_by(int thread);
// Whether any thread of the block says so; those that have not returned meet.
bool any_of_block(bool own);

// No eye sees these bytes: they are no memory of the device.
template <class T>
__attribute__((no_sanitize("thread"))) T exchange(T value, int from) {
  static_assert(sizeof(T) <= kOfferedBytes);
  std::memcpy(offered_by(self()), &value, sizeof(T));
  meet(Meeting::warp);
  std::memcpy(&value, offered_by(from), sizeof(T));
  meet(Meeting::warp);
  return value;
}

}  // namespace weir::emulation

inline void __syncthreads() { weir::emulation::meet(weir::emulation::Meeting::block); }
inline void __syncwarp() { weir::emulation::meet(weir::emulation::Meeting::warp); }

inline int __syncthreads_or(int predicate) {
  return static_cast<int>(weir::emulation::any_of_block(predicate != 0));
}

__attribute__((no_sanitize("thread"))) inline unsigned __ballot_sync(unsigned, bool predicate) {
  using namespace weir::emulation;
  std::memcpy(offered_by(self()), &predicate, sizeof(bool));
  meet(Meeting::warp);
  unsigned votes = 0;
  for (int lane = 0; lane < 32; ++lane) {
    bool value = false;
    std::memcpy(&value, offered_by(self() / 32 * 32 + lane), sizeof(bool));
    votes |= value ? 1U << lane : 0U;
  }
  meet(Meeting::warp);
  return votes;
}

template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return weir::emulation::exchange(value, weir::emulation::self() ^ mask);
}
template <class T>
T __shfl_down_sync(unsigned, T value, int by) {
  const int own = weir::emulation::self();
  return weir::emulation::exchange(value, own % 32 + by < 32 ? own + by : own);
}

inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
template <class T>
T min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}
