// How the kernels are launched. A kernel is a template over L, the elements a thread takes at a
// time: 16 bytes of them where every row begins on 16 bytes, else one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "exec/cuda/kernels/types.hpp"
#include "plan/words/error.hpp"

namespace weir::cuda {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr unsigned kMostInY = 65535;  // blocks of a grid in y: they take what is beyond in turn
constexpr unsigned kWholeWarp = 0xFFFFFFFFU;

template <class E>
constexpr int kLanes = 16 / static_cast<int>(sizeof(E));

inline unsigned blocks_for(std::int64_t items, int a_block = kThreads) {
  return static_cast<unsigned>((items + a_block - 1) / a_block);
}

// Threads for a block that walks a row: whole warps, no more than the row keeps busy.
inline unsigned threads_for_row(std::int64_t width, int lanes, int most = kThreads) {
  const std::int64_t warps =
      (width + std::int64_t{lanes} * kWarp - 1) / (std::int64_t{lanes} * kWarp);
  const std::int64_t threads = warps * kWarp;
  return static_cast<unsigned>(threads < most ? threads : most);
}

// A failed launch is an error of the program (a bad grid, no code for this device), told with the
// kernel's name.
inline void check_launch(const char* kernel) {
  const cudaError_t status = cudaPeekAtLastError();
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw RunFailed(std::string("launch of ") + kernel + ": " + cudaGetErrorString(status));
}

inline bool begins_on_16_bytes(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

// Whether rows of `width` elements E can be taken 16 bytes at a time from all these arrays (null:
// not there).
template <class E, class... Array>
bool takes_vectors(std::int64_t width, const Array*... arrays) {
  return width % kLanes<E> == 0 && (begins_on_16_bytes(arrays) && ...);
}

// launch(L) with L a constant: 16 bytes of E or one element.
template <class E, class Launch>
void with_lanes(bool vectors, Launch launch) {
  if (vectors) {
    launch(std::integral_constant<int, kLanes<E>>{});
  } else {
    launch(std::integral_constant<int, 1>{});
  }
}

}  // namespace weir::cuda
