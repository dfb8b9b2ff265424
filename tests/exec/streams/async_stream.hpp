// A device of the tests that only launches: a stream that a thread of its own works through, with
// seeded random pauses. Work starts when the host has launched a whole step and waits for its end,
// as on a GPU that lags far behind; so what happens to be in order is in order by events alone, and
// the thread sanitizer sees all that is not.
//
// The streams know, by counting launches, what every launch is ordered behind. By that they keep
// CUDA's rules for capturing a graph (a stream joins by waiting for a recorded event, and all are
// joined again at the end), and can tell whether a wait is one that nothing else implies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "exec/device/arena.hpp"
#include "exec/device/kernel_watch.hpp"
#include "exec/device/stream.hpp"

namespace weir {

// By stream: how many of its launches.
using LaunchCounts = std::map<int, std::int64_t>;

struct AsyncOptions {
  unsigned seed = 1;
  unsigned longest_pause_us = 60;
  int ranks_a_device = 1 << 20;  // fewer: messages between devices are copied
  int left_out_wait =
      -1;  // a fault: this wait of the run (from 0) is not done, and what it waits for comes late
};

// What the streams of one run share. The launching thread alone touches it, but for the two that
// say otherwise.
struct AsyncWorld {
  explicit AsyncWorld(const AsyncOptions& chosen) : options(chosen), random(chosen.seed) {}
  AsyncOptions options;
  std::mt19937 random;
  std::vector<std::function<void()>> tape;  // what the recorded step launches, in order
  bool recording = false;
  LaunchCounts launched, launched_before_recording;
  int streams = 0, waits = 0, replays = 0, copies = 0;
  bool fault_was_redundant = false;
  bool fault_had_work_behind = false;       // until the end of its action
  bool fault_was_beside_the_first = false;  // neither the first stream's wait nor a wait for it
  std::atomic<bool> held{false};            // a step is being launched; read by all streams
  // Told of actions as a device's recorder is; `launched_work` is asked at each launch, and what it
  // gives is told when the work has run, on the stream's thread.
  KernelWatch* watch = nullptr;
  using Ran = std::function<void(std::chrono::steady_clock::time_point,
                                 std::chrono::steady_clock::time_point)>;
  std::function<Ran()> launched_work;
};

inline void require(bool holds, const char* sentence) {
  if (!holds) throw std::logic_error(sentence);
}

inline void poison(const Tensor& dead) {  // NaN, or tokens that no model has
  std::memset(dead.data, 0xFF, static_cast<std::size_t>(dead.bytes));
}

class AsyncStream : public Stream {
 public:
  AsyncStream(std::shared_ptr<AsyncWorld> world, int device)
      : world_(std::move(world)),
        number_(world_->streams++),
        device_(device),
        thread_([this] { work(); }) {}
  ~AsyncStream() override {
    world_->held = false;
    put([this] { ended_ = true; });
    thread_.join();
  }

  [[nodiscard]] int device() const override { return device_; }
  [[nodiscard]] Event make_event() override {
    events_.push_back(std::make_unique<Place>());
    return {this, static_cast<std::int32_t>(events_.size()) - 1};
  }
  void record(const Event& own) override;
  void wait_for(const Event& event) override;
  [[nodiscard]] bool reached(const Event& own) const override {
    world_->held = false;  // who asks waits
    Place& place = place_of(own);
    const std::scoped_lock lock(place.mutex);
    return place.reached >= place.recorded;
  }
  [[nodiscard]] std::int64_t ns_between(const Event& from, const Event& to) const override {
    return (place_of(to).time - place_of(from).time) / std::chrono::nanoseconds(1);
  }
  void begin_action(std::string_view name) override {
    require(!in_action_, "an action within an action");
    in_action_ = true;
    world_->held = true;
    if (world_->watch != nullptr) world_->watch->begin_action(name);
  }
  void end_action() override {
    in_action_ = left_out_ = false;
    if (world_->watch != nullptr) world_->watch->end_action();
  }
  void discard(const Tensor& dead) noexcept override {
    launch([this, dead] { put([dead] { poison(dead); }); });
  }
  [[nodiscard]] std::unique_ptr<Stream> make_side_stream() override {
    return std::make_unique<AsyncStream>(world_, device_);
  }
  void zero(const Tensor& to) override {
    launch_work([to] { std::memset(to.data, 0, static_cast<std::size_t>(to.bytes)); });
  }
  void copy(const Tensor& from, const Tensor& to, const Stream& other) override {
    require(from.bytes == to.bytes, "a copy between blocks of two sizes");
    if (other.device() != device_) ++world_->copies;
    launch_work(
        [from, to] { std::memcpy(to.data, from.data, static_cast<std::size_t>(to.bytes)); });
  }
  [[nodiscard]] std::unique_ptr<GraphCapture> make_capture() override;

  // Work that takes its time.
  void launch_work(std::function<void()> body);
  // Returns when the stream is empty; throws what a piece of work threw.
  void finish();

 private:
  friend class AsyncCapture;
  struct Place {
    AsyncStream* of = nullptr;
    std::int64_t recorded = 0,
                 first_put = 0;  // how often; the run of work before it. The launching thread's
    LaunchCounts behind;
    std::mutex mutex;
    std::condition_variable changed;
    std::int64_t reached = 0;
    std::chrono::steady_clock::time_point time;
  };
  [[nodiscard]] static Place& place_of(const Event& event) {
    return *static_cast<AsyncStream&>(*event.of).events_.at(static_cast<std::size_t>(event.index));
  }

  void count_launch();
  void launch(std::function<void()> now);
  void put(std::function<void()> work);
  void dawdle(std::int64_t first_put);
  void work();

  std::shared_ptr<AsyncWorld> world_;  // the streams of a run end in no order
  int number_, device_;
  std::vector<std::unique_ptr<Place>> events_;
  LaunchCounts behind_;  // what the next launch is ordered behind
  bool in_action_ = false, run_ended_ = true;
  bool left_out_ = false;  // a wait, and nothing was launched behind it yet
  std::int64_t run_first_ = 0,
               number_put_ = 0;  // the last run of work without an event in it; all that was put

  std::mutex mutex_;
  std::condition_variable changed_, idle_;
  std::deque<std::function<void()>> queued_;
  std::int64_t taken_ = 0;
  bool busy_ = false;
  std::exception_ptr error_;
  bool ended_ = false;  // the thread's own
  std::thread thread_;
};

class AsyncCapture : public GraphCapture {
 public:
  AsyncCapture(AsyncStream& origin, std::shared_ptr<AsyncWorld> world)
      : origin_(origin), world_(std::move(world)) {}
  void begin() override {
    world_->recording = true;
    world_->launched_before_recording = world_->launched;
    origin_.count_launch();  // the origin needs to join nobody
  }
  void end() override {
    world_->recording = false;
    for (const auto& [stream, count] : world_->launched) {
      require(
          count == world_->launched_before_recording[stream] || origin_.behind_[stream] >= count,
          "a queue of the recorded step is not joined at its end");
    }
  }
  void replay() override {
    ++world_->replays;
    world_->held = true;
    for (const auto& launch : world_->tape) launch();
  }

 private:
  AsyncStream& origin_;
  std::shared_ptr<AsyncWorld> world_;
};

inline void AsyncStream::record(const Event& own) {
  require(own.of == this, "a mark of another queue is recorded");
  Place& place = place_of(own);
  count_launch();
  place.of = this;
  place.behind = behind_;
  place.first_put = run_first_;
  run_ended_ = true;
  launch([this, &place] {
    put([&place, count = ++place.recorded] {
      const std::scoped_lock lock(place.mutex);
      place.time = std::chrono::steady_clock::now();
      place.reached = count;
      place.changed.notify_all();
    });
  });
}

inline void AsyncStream::wait_for(const Event& event) {
  Place& place = place_of(event);
  require(place.of != nullptr, "a wait for a mark that was never recorded");
  const int other = place.of->number_;
  if (world_->recording) {
    require(place.behind[other] > world_->launched_before_recording[other],
            "a recorded step waits for a mark that is not recorded in it");
  }
  const bool left_out = world_->waits++ == world_->options.left_out_wait;
  if (left_out) {
    world_->fault_was_redundant = behind_[other] >= place.behind[other];
    world_->fault_was_beside_the_first = number_ != 0 && other != 0;
    left_out_ = true;
    place.of->dawdle(place.first_put);
    return;
  }
  for (const auto& [stream, count] : place.behind)
    behind_[stream] = std::max(behind_[stream], count);
  launch([this, &place] {
    put([&place, count = place.recorded] {
      std::unique_lock lock(place.mutex);
      place.changed.wait(lock, [&] { return place.reached >= count; });
    });
  });
}

inline std::unique_ptr<GraphCapture> AsyncStream::make_capture() {
  return std::make_unique<AsyncCapture>(*this, world_);
}

inline void AsyncStream::launch_work(std::function<void()> body) {
  if (left_out_) world_->fault_had_work_behind = true;
  if (run_ended_) run_first_ = number_put_;
  run_ended_ = left_out_ = false;
  count_launch();
  launch([this, body = std::move(body)] {
    const unsigned longest = world_->options.longest_pause_us;
    auto& random = world_->random;
    const unsigned pause = random() % 16 == 0 ? random() % (10 * longest) : random() % longest;
    put([body, pause, ran = world_->launched_work ? world_->launched_work() : AsyncWorld::Ran()] {
      std::this_thread::sleep_for(std::chrono::microseconds(pause));
      const auto start = std::chrono::steady_clock::now();
      body();
      if (ran) ran(start, std::chrono::steady_clock::now());
    });
  });
}

inline void AsyncStream::count_launch() {
  if (world_->recording) {  // in the step once it is behind anything of it
    const bool joined = std::any_of(behind_.begin(), behind_.end(), [this](const auto& entry) {
      return entry.second > world_->launched_before_recording[entry.first];
    });
    require(joined || world_->launched == world_->launched_before_recording,
            "launched on a queue that has not joined the recorded step");
  }
  behind_[number_] = ++world_->launched[number_];
}

inline void AsyncStream::launch(std::function<void()> now) {
  if (world_->recording) {
    world_->tape.push_back(std::move(now));
  } else {
    now();
  }
}

inline void AsyncStream::put(std::function<void()> work) {
  ++number_put_;
  const std::scoped_lock lock(mutex_);
  queued_.push_back(std::move(work));
  changed_.notify_all();
}

// This piece of work and what comes after it begin late.
inline void AsyncStream::dawdle(std::int64_t first_put) {
  const std::scoped_lock lock(mutex_);
  const std::int64_t place =
      std::clamp<std::int64_t>(first_put - taken_, 0, static_cast<std::int64_t>(queued_.size()));
  queued_.insert(queued_.begin() + place,
                 [] { std::this_thread::sleep_for(std::chrono::milliseconds(60)); });
  ++number_put_;
}

inline void AsyncStream::finish() {
  world_->held = false;
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return queued_.empty() && !busy_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

inline void AsyncStream::work() {
  while (!ended_) {
    std::function<void()> next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !queued_.empty(); });
    }
    while (world_->held) std::this_thread::sleep_for(std::chrono::microseconds(50));
    {
      const std::scoped_lock lock(mutex_);
      next = std::move(queued_.front());
      queued_.pop_front();
      ++taken_;
      busy_ = true;
    }
    try {
      next();
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    next = nullptr;
    const std::scoped_lock lock(mutex_);
    busy_ = false;
    if (queued_.empty()) idle_.notify_all();
  }
}

}  // namespace weir
