// A CUDA stream: work on it runs in the order it was put there, beside the work of other streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/cuda/driver/unique_handle.hpp"

namespace weir {

inline void release_stream(cudaStream_t stream) noexcept {
  CUDA_CHECK_NOEXCEPT(cudaStreamDestroy(stream));
}
using StreamHandle = UniqueHandle<cudaStream_t, release_stream>;

// Does not wait for the default stream.
[[nodiscard]] inline StreamHandle make_stream_handle() {
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return StreamHandle(stream);
}

}  // namespace weir
