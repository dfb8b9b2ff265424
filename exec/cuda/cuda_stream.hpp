// A stream of CUDA. An event is two of CUDA's: one keeps the time, the other makes order in a graph
// that is being captured, where an event that is read from outside cannot be waited for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "exec/cuda/driver/event_handle.hpp"
#include "exec/cuda/driver/stream_handle.hpp"
#include "exec/device/kernel_watch.hpp"
#include "exec/device/stream.hpp"

namespace weir {

class CudaStream : public Stream {
 public:
  using MakeStreamHandle = std::function<StreamHandle()>;
  // `make_side_handle` makes the streams of copies; both are streams of `device`.
  CudaStream(int device, StreamHandle stream, MakeStreamHandle make_side_handle);

  // Told of every action, from now on and on lanes made from here on; null: nobody. Outlives the
  // stream.
  void tell(KernelWatch* watch) { watch_ = watch; }

  [[nodiscard]] cudaStream_t handle() const { return stream_.get(); }
  [[nodiscard]] bool capturing() const;

  [[nodiscard]] int device() const override { return device_; }
  [[nodiscard]] Event make_event() override;
  void record(const Event& own) override;
  void wait_for(const Event& event) override;
  [[nodiscard]] bool reached(const Event& own) const override;
  [[nodiscard]] std::int64_t ns_between(const Event& from, const Event& to) const override;
  // An NVTX range of the launching thread, and the device made current for what is launched in it.
  void begin_action(std::string_view name) override;
  void end_action() override;
  void discard(const Tensor& dead) noexcept override;
  [[nodiscard]] std::unique_ptr<Stream> make_side_stream() override;
  void zero(const Tensor& to) override;
  void copy(const Tensor& from, const Tensor& to, const Stream& other) override;
  [[nodiscard]] std::unique_ptr<GraphCapture> make_capture() override;

 private:
  struct EventPair {
    EventHandle time, order;
  };
  [[nodiscard]] static const EventPair& event_pair_of(const Event& event);

  int device_;
  StreamHandle stream_;
  MakeStreamHandle make_side_handle_;
  KernelWatch* watch_ = nullptr;
  std::vector<EventPair> events_;
};

}  // namespace weir
