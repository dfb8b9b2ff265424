// Launches between two events.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/blas/launch_timer.hpp"

#include <algorithm>

namespace weir::cuda {

LaunchTimer::LaunchTimer(int device, cudaStream_t stream)
    : stream_(stream),
      pool_(device),
      begin_(make_event_handle(cudaEventDefault)),
      end_(make_event_handle(cudaEventDefault)) {}

LaunchTimer::~LaunchTimer() {
  for (const auto& [place, block] : blocks_) pool_.release(block.data, stream_);
  CUDA_CHECK_NOEXCEPT(cudaStreamSynchronize(stream_));
}

void* LaunchTimer::memory(Place place, std::int64_t bytes) {
  // 0x3C3C is 0.0115 in bf16 and 0x3C3C3C3C the same in fp32; zeros would cost the units less.
  constexpr int kSmall = 0x3C;
  Block& block = blocks_[place];
  if (bytes > block.bytes) {
    if (block.data != nullptr) pool_.release(block.data, stream_);
    block = {};
    block = {pool_.allocate(bytes, stream_), bytes};
    if (place != Place::scratch)
      CUDA_CHECK(cudaMemsetAsync(block.data, kSmall, static_cast<std::size_t>(bytes), stream_));
  }
  return block.data;
}

Seconds LaunchTimer::time(const std::function<void()>& launch) {
  constexpr int kRuns = 3;
  // The first launch may load a module: it is not timed.
  launch();
  float shortest = 0;
  for (int run = 0; run < kRuns; ++run) {
    CUDA_CHECK(cudaEventRecord(begin_.get(), stream_));
    launch();
    CUDA_CHECK(cudaEventRecord(end_.get(), stream_));
    CUDA_CHECK(cudaStreamSynchronize(stream_));
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
    // The shortest: whatever disturbs a launch makes it longer.
    shortest = run == 0 ? milliseconds : std::min(shortest, milliseconds);
  }
  return Seconds(static_cast<double>(shortest) * 1e-3);
}

}  // namespace weir::cuda
