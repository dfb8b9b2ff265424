// The launch queue of CUDA: a stream. A mark is two events: one keeps the time, the other makes
// order in a graph that is being captured, where an event that is read from outside cannot be
// waited for.
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

class CudaQueue : public LaunchQueue {
 public:
  using MakeStream = std::function<Stream()>;
  // `make_lane_stream` makes the streams of copies; both are streams of `device`.
  CudaQueue(int device, Stream stream, MakeStream make_lane_stream);

  // Told of every action, from now on and on lanes made from here on; null: nobody. Outlives the
  // queue.
  void tell(KernelWatch* watch) { watch_ = watch; }

  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }
  [[nodiscard]] bool capturing() const;

  [[nodiscard]] int device() const override { return device_; }
  [[nodiscard]] Mark make_mark() override;
  void record(const Mark& own) override;
  void wait_for(const Mark& mark) override;
  [[nodiscard]] bool reached(const Mark& own) const override;
  [[nodiscard]] std::int64_t ns_between(const Mark& from, const Mark& to) const override;
  // An NVTX range of the launching thread, and the device made current for what is launched in it.
  void begin_action(std::string_view name) override;
  void end_action() override;
  void discard(const Tensor& dead) noexcept override;
  [[nodiscard]] std::unique_ptr<LaunchQueue> make_lane() override;
  void copy(const Tensor& from, const Tensor& to, const LaunchQueue& other) override;
  [[nodiscard]] std::unique_ptr<StepRecorder> make_recorder() override;

 private:
  struct Events {
    Event time, order;
  };
  [[nodiscard]] static const Events& events_of(const Mark& mark);

  int device_;
  Stream stream_;
  MakeStream make_lane_stream_;
  KernelWatch* watch_ = nullptr;
  std::vector<Events> marks_;
};

}  // namespace weir
