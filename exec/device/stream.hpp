// Order without waiting. A backend whose launches return before their work is done puts it on a
// queue: work of one queue runs in the order in which it was launched, queues run beside each
// other, and marks alone order one behind another. So one host thread can launch a whole step for
// all ranks (exec/streams/step_launcher). A queue is a CUDA stream, or, in the tests, a thread that
// works through closures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace weir {

struct Tensor;
class LaunchQueue;

// A place among the work of one queue. Made once, recorded anew in every step.
struct Mark {
  LaunchQueue* of = nullptr;
  std::int32_t index = -1;
};

// A step launched once and repeated as a whole: a CUDA graph. The queue that made it begins and
// ends what is recorded: after `begin`, other queues join it by waiting for one of its marks, and
// before `end` it waits for a last mark of each of them. Between the two nothing is done, nothing
// may be allocated, and no mark from before may be waited for.
class StepRecorder {
 public:
  virtual ~StepRecorder() = default;
  virtual void begin() = 0;
  virtual void end() = 0;
  // Launches all of it; the marks recorded in it get new times. What tensors hold and where they
  // lie is as recorded; what a kernel reads when it runs (tokens, Backend::begin_step's numbers) is
  // read anew.
  virtual void replay() = 0;
};

class LaunchQueue {
 public:
  virtual ~LaunchQueue() = default;
  // Queues of one device share memory and a clock: a message between them is handed over, not
  // copied.
  [[nodiscard]] virtual int device() const = 0;

  [[nodiscard]] virtual Mark make_mark() = 0;
  virtual void record(
      const Mark& own) = 0;  // a mark of this queue: behind all that was launched on it so far
  virtual void wait_for(
      const Mark& mark) = 0;  // of any queue, recorded: what is launched next begins after it
  [[nodiscard]] virtual bool reached(
      const Mark& own) const = 0;  // recorded, and all before it is done; throws RunFailed
  // Both reached, both of queues of this device.
  [[nodiscard]] virtual std::int64_t ns_between(const Mark& from, const Mark& to) const = 0;

  // Launches between the two belong to this action, by name: for those who watch from outside.
  virtual void begin_action(std::string_view name) = 0;
  virtual void end_action() = 0;

  // Nobody reads this content behind this place. A debug build overwrites it, so that who does is
  // found out.
  virtual void discard(const Tensor& dead) noexcept = 0;

  // Another queue of this device, for copies beside its kernels.
  [[nodiscard]] virtual std::unique_ptr<LaunchQueue> make_lane() = 0;
  // From memory of this device to memory of `other`'s; the sizes are equal.
  virtual void copy(const Tensor& from, const Tensor& to, const LaunchQueue& other) = 0;

  [[nodiscard]] virtual std::unique_ptr<StepRecorder> make_recorder() = 0;
};

}  // namespace weir
