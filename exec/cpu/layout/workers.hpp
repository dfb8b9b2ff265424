// The processors of a mesh on this machine: one thread a processor, each pinned to a core of its
// own (round robin where there are more of them than cores), its library kernels single-threaded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <barrier>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>

#include "exec/threads/team.hpp"

namespace weir::cpu {

class Workers {
 public:
  explicit Workers(int count);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  [[nodiscard]] int count() const { return team_.count(); }
  // work(0), work(1)... at the same time, one on each worker; returns when all have returned and
  // rethrows what the first of them threw.
  void run(const std::function<void(int worker)>& work);
  // All workers wait here for each other; only inside run. Throws Stopped where another one has
  // thrown, so that nobody waits for it.
  void meet();
  class Stopped : public std::exception {};

 private:
  void serve(int worker);
  void fail(std::exception_ptr failure);

  std::optional<std::barrier<>> meeting_;  // made anew after a failure, which takes workers from it
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(int)>* work_ = nullptr;
  int round_ = 0;  // counts runs; -1 ends the threads
  int busy_ = 0;
  std::exception_ptr failure_;
  Team team_;  // last: it uses all the others
};

}  // namespace weir::cpu
