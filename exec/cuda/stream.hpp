// A CUDA stream and an event. Order between streams is made by events only: `wait` makes a stream wait for what an
// event has recorded, without blocking the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/cuda_check.hpp"
#include "exec/cuda/unique_handle.hpp"

namespace weir {

inline void release_stream(cudaStream_t stream) noexcept { CUDA_CHECK_NOEXCEPT(cudaStreamDestroy(stream)); }
inline void release_event(cudaEvent_t event) noexcept { CUDA_CHECK_NOEXCEPT(cudaEventDestroy(event)); }

using Stream = UniqueHandle<cudaStream_t, release_stream>;
using Event = UniqueHandle<cudaEvent_t, release_event>;

// Lower numbers are served first; the device's range clamps them.
[[nodiscard]] inline Stream make_stream(int priority = 0) {
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  return Stream(stream);
}

[[nodiscard]] inline Event make_ordering_event() {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return Event(event);
}

[[nodiscard]] inline Event make_timing_event() {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDefault));
  return Event(event);
}

inline void record(const Event& event, cudaStream_t stream) { CUDA_CHECK(cudaEventRecord(event.get(), stream)); }
inline void wait(cudaStream_t stream, const Event& event) { CUDA_CHECK(cudaStreamWaitEvent(stream, event.get(), 0)); }

}  // namespace weir
