// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cuda_stream.hpp"

#include <nvtx3/nvToolsExt.h>

#include <cmath>
#include <string>
#include <utility>

#include "exec/cuda/cuda_graph_capture.hpp"
#include "exec/device/arena.hpp"

namespace weir {

CudaQueue::CudaQueue(int device, Stream stream, MakeStream make_lane_stream)
    : device_(device), stream_(std::move(stream)), make_lane_stream_(std::move(make_lane_stream)) {}

bool CudaQueue::capturing() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CUDA_CHECK(cudaStreamIsCapturing(stream(), &status));
  return status == cudaStreamCaptureStatusActive;
}

Mark CudaQueue::make_mark() {
  CUDA_CHECK(cudaSetDevice(device_));
  marks_.push_back({make_event(cudaEventDefault), make_event(cudaEventDisableTiming)});
  return {this, static_cast<std::int32_t>(marks_.size()) - 1};
}

const CudaQueue::Events& CudaQueue::events_of(const Mark& mark) {
  return static_cast<const CudaQueue&>(*mark.of).marks_.at(static_cast<std::size_t>(mark.index));
}

// While capturing, the time goes first: what is behind `order` must be all of the stream, or a
// stream that ends with a mark would not be joined by who waits for it.
void CudaQueue::record(const Mark& own) {
  const Events& events = events_of(own);
  if (capturing()) {
    CUDA_CHECK(cudaEventRecordWithFlags(events.time.get(), stream(), cudaEventRecordExternal));
    CUDA_CHECK(cudaEventRecord(events.order.get(), stream()));
  } else {
    CUDA_CHECK(cudaEventRecord(events.time.get(), stream()));
  }
}

// A stream that is not in the captured step yet joins it by this: so it is the other's state that
// decides.
void CudaQueue::wait_for(const Mark& mark) {
  const Events& events = events_of(mark);
  const bool captured = static_cast<const CudaQueue&>(*mark.of).capturing();
  CUDA_CHECK(cudaStreamWaitEvent(stream(), captured ? events.order.get() : events.time.get(), 0));
}

bool CudaQueue::reached(const Mark& own) const {
  return CUDA_DONE(cudaEventQuery(events_of(own).time.get()));
}

std::int64_t CudaQueue::ns_between(const Mark& from, const Mark& to) const {
  float milliseconds = 0;  // resolves 10 ns in a step of 100 ms, finer than the events themselves
  CUDA_CHECK(
      cudaEventElapsedTime(&milliseconds, events_of(from).time.get(), events_of(to).time.get()));
  return std::llround(static_cast<double>(milliseconds) * 1e6);
}

void CudaQueue::begin_action(std::string_view name) {
  CUDA_CHECK(cudaSetDevice(device_));
  nvtxRangePushA(std::string(name).c_str());  // returns at once where no tool listens
  if (watch_ != nullptr) watch_->begin_action(name);
}

void CudaQueue::end_action() {
  if (watch_ != nullptr) watch_->end_action();
  nvtxRangePop();
}

void CudaQueue::discard(const Tensor& dead) noexcept {
#ifdef NDEBUG
  static_cast<void>(dead);
#else
  CUDA_CHECK_NOEXCEPT(
      cudaMemsetAsync(dead.data, 0xFF, static_cast<std::size_t>(dead.bytes), stream()));
#endif
}

std::unique_ptr<LaunchQueue> CudaQueue::make_lane() {
  auto lane = std::make_unique<CudaQueue>(device_, make_lane_stream_(), make_lane_stream_);
  lane->tell(watch_);
  return lane;
}

void CudaQueue::copy(const Tensor& from, const Tensor& to, const LaunchQueue& other) {
  CUDA_CHECK(cudaMemcpyPeerAsync(to.data, other.device(), from.data, device_,
                                 static_cast<std::size_t>(from.bytes), stream()));
}

std::unique_ptr<StepRecorder> CudaQueue::make_recorder() {
  return std::make_unique<StepGraph>(stream());
}

}  // namespace weir
