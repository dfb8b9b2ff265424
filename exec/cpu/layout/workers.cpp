// Threads that wait for a round of work and meet within it.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/workers.hpp"

#include <utility>

#include "exec/cpu/core.hpp"
#include "exec/cpu/kernels/matmul.hpp"

namespace weir::cpu {

Workers::Workers(int count)
    : meeting_(count), team_(count, [this](int worker) { serve(worker); }) {}

void Workers::meet() {
  meeting_->arrive_and_wait();
  if (stopped_) throw Stopped();
}

Workers::~Workers() {
  {
    // Under the lock, or a worker between its look and its wait would sleep for ever.
    const std::lock_guard lock(mutex_);
    round_ = -1;
  }
  changed_.notify_all();
}

void Workers::run(const std::function<void(int)>& work) {
  // The lock guards all of a round: work, number, how many are busy, the first failure.
  std::unique_lock lock(mutex_);
  work_ = &work;
  busy_ = count();
  failure_ = nullptr;
  ++round_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return busy_ == 0; });
  if (!failure_) return;
  // All are back, and none is in a meeting.
  meeting_.emplace(count());
  stopped_ = false;
  std::rethrow_exception(failure_);
}

// The first failure counts, and is told before the others can fail because of it.
void Workers::fail(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
  }
  stopped_ = true;
  meeting_->arrive_and_drop();
}

void Workers::serve(int worker) {
  pin_to_core(worker);
  use_one_thread();
  for (int seen = 0;;) {
    const std::function<void(int)>* work = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return round_ != seen; });
      if (round_ < 0) return;
      seen = round_;
      work = work_;
    }
    try {
      (*work)(worker);
    } catch (...) {
      fail(std::current_exception());
    }
    // The last worker wakes `run`.
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) changed_.notify_all();
  }
}

}  // namespace weir::cpu
