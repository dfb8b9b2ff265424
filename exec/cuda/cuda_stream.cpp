// Events, actions and copies on a CUDA stream, captured or not.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cuda_stream.hpp"

#include <nvtx3/nvToolsExt.h>

#include <cmath>
#include <string>
#include <utility>

#include "exec/cuda/cuda_graph_capture.hpp"
#include "exec/device/arena.hpp"

namespace weir {

CudaStream::CudaStream(int device, StreamHandle stream, MakeStreamHandle make_side_handle)
    : device_(device), stream_(std::move(stream)), make_side_handle_(std::move(make_side_handle)) {}

bool CudaStream::capturing() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CUDA_CHECK(cudaStreamIsCapturing(handle(), &status));
  return status == cudaStreamCaptureStatusActive;
}

Event CudaStream::make_event() {
  CUDA_CHECK(cudaSetDevice(device_));
  events_.push_back(
      {make_event_handle(cudaEventDefault), make_event_handle(cudaEventDisableTiming)});
  return {this, static_cast<std::int32_t>(events_.size()) - 1};
}

const CudaStream::EventPair& CudaStream::event_pair_of(const Event& event) {
  return static_cast<const CudaStream&>(*event.of).events_.at(
      static_cast<std::size_t>(event.index));
}

// While capturing, the time goes first: what is behind `order` must be all of the stream, or a
// stream that ends with an event would not be joined by who waits for it.
void CudaStream::record(const Event& own) {
  const EventPair& events = event_pair_of(own);
  if (capturing()) {
    CUDA_CHECK(cudaEventRecordWithFlags(events.time.get(), handle(), cudaEventRecordExternal));
    CUDA_CHECK(cudaEventRecord(events.order.get(), handle()));
  } else {
    CUDA_CHECK(cudaEventRecord(events.time.get(), handle()));
  }
}

// A stream that is not in the captured step yet joins it by this: so it is the other's state that
// decides.
void CudaStream::wait_for(const Event& event) {
  const EventPair& events = event_pair_of(event);
  const bool captured = static_cast<const CudaStream&>(*event.of).capturing();
  CUDA_CHECK(cudaStreamWaitEvent(handle(), captured ? events.order.get() : events.time.get(), 0));
}

bool CudaStream::reached(const Event& own) const {
  return CUDA_DONE(cudaEventQuery(event_pair_of(own).time.get()));
}

std::int64_t CudaStream::ns_between(const Event& from, const Event& to) const {
  float milliseconds = 0;  // resolves 10 ns in a step of 100 ms, finer than the events themselves
  CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_pair_of(from).time.get(),
                                  event_pair_of(to).time.get()));
  return std::llround(static_cast<double>(milliseconds) * 1e6);
}

void CudaStream::begin_action(std::string_view name) {
  CUDA_CHECK(cudaSetDevice(device_));
  nvtxRangePushA(std::string(name).c_str());  // returns at once where no tool listens
  if (watch_ != nullptr) watch_->begin_action(name);
}

void CudaStream::end_action() {
  if (watch_ != nullptr) watch_->end_action();
  nvtxRangePop();
}

void CudaStream::discard(const Tensor& dead) noexcept {
#ifdef NDEBUG
  static_cast<void>(dead);
#else
  CUDA_CHECK_NOEXCEPT(
      cudaMemsetAsync(dead.data, 0xFF, static_cast<std::size_t>(dead.bytes), handle()));
#endif
}

std::unique_ptr<Stream> CudaStream::make_side_stream() {
  auto lane = std::make_unique<CudaStream>(device_, make_side_handle_(), make_side_handle_);
  lane->tell(watch_);
  return lane;
}

void CudaStream::zero(const Tensor& to) {
  CUDA_CHECK(cudaMemsetAsync(to.data, 0, static_cast<std::size_t>(to.bytes), handle()));
}

void CudaStream::copy(const Tensor& from, const Tensor& to, const Stream& other) {
  if (other.device() == device_) {
    CUDA_CHECK(cudaMemcpyAsync(to.data, from.data, static_cast<std::size_t>(from.bytes),
                               cudaMemcpyDeviceToDevice, handle()));
    return;
  }
  CUDA_CHECK(cudaMemcpyPeerAsync(to.data, other.device(), from.data, device_,
                                 static_cast<std::size_t>(from.bytes), handle()));
}

std::unique_ptr<GraphCapture> CudaStream::make_capture() {
  return std::make_unique<CudaGraphCapture>(handle());
}

}  // namespace weir
