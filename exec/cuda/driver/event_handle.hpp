// A CUDA event: a place in a stream, which other streams can wait for and, if it keeps time, whose
// moment can be read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/cuda/driver/unique_handle.hpp"

namespace weir {

inline void release_event(cudaEvent_t event) noexcept {
  CUDA_CHECK_NOEXCEPT(cudaEventDestroy(event));
}
using EventHandle = UniqueHandle<cudaEvent_t, release_event>;

// `flags`: cudaEventDefault keeps time, cudaEventDisableTiming does not. For streams of the current
// device.
[[nodiscard]] inline EventHandle make_event_handle(unsigned int flags) {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreateWithFlags(&event, flags));
  return EventHandle(event);
}

}  // namespace weir
