// Order without waiting. A backend whose launches return before their work is done puts it on a
// stream: work of one stream runs in the order in which it was launched, streams run beside each
// other, and events alone order one behind another. So one host thread can launch a whole step for
// all ranks (exec/streams/step_launcher). A stream is a CUDA stream, or, in the tests, a thread
// that works through closures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace weir {

struct Tensor;
class Stream;

// A place among the work of one stream. Made once, recorded anew in every step.
struct Event {
  Stream* of = nullptr;
  std::int32_t index = -1;
};

// A step launched once and repeated as a whole: a CUDA graph. The stream that made it begins and
// ends what is recorded: after `begin`, other streams join it by waiting for one of its events, and
// before `end` it waits for a last event of each of them. Between the two nothing is done, nothing
// may be allocated, and no event from before may be waited for.
class GraphCapture {
 public:
  virtual ~GraphCapture() = default;
  virtual void begin() = 0;
  virtual void end() = 0;
  // Launches all of it; the events recorded in it get new times. What tensors hold and where they
  // lie is as recorded; what a kernel reads when it runs (tokens, Backend::begin_step's numbers) is
  // read anew.
  virtual void replay() = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  // Streams of one device share memory and a clock: a message between them is handed over, not
  // copied.
  [[nodiscard]] virtual int device() const = 0;

  [[nodiscard]] virtual Event make_event() = 0;
  virtual void record(
      const Event& own) = 0;  // an event of this stream: behind all that was launched on it so far
  virtual void wait_for(
      const Event& event) = 0;  // of any stream, recorded: what is launched next begins after it
  [[nodiscard]] virtual bool reached(
      const Event& own) const = 0;  // recorded, and all before it is done; throws RunFailed
  // Both reached, both of streams of this device.
  [[nodiscard]] virtual std::int64_t ns_between(const Event& from, const Event& to) const = 0;

  // Launches between the two belong to this action, by name: for those who watch from outside.
  virtual void begin_action(std::string_view name) = 0;
  virtual void end_action() = 0;

  // Nobody reads this content behind this place. A debug build overwrites it, so that who does is
  // found out.
  virtual void discard(const Tensor& dead) noexcept = 0;

  // Another stream of this device, for copies beside its kernels.
  [[nodiscard]] virtual std::unique_ptr<Stream> make_side_stream() = 0;
  // All of it becomes zeros.
  virtual void zero(const Tensor& to) = 0;
  // From memory of this device to memory of `other`'s, which may be the same; the sizes are equal.
  virtual void copy(const Tensor& from, const Tensor& to, const Stream& other) = 0;

  [[nodiscard]] virtual std::unique_ptr<GraphCapture> make_capture() = 0;
};

}  // namespace weir
