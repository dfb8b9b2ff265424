// Threads that begin together or not at all: where the system has no more of them, those that are
// there already leave, and the one line says how many were wanted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace weir {

class Team {
 public:
  // work(0), work(1)... at the same time, a thread each; none begins before all are there. Throws
  // RunFailed where a thread cannot be made: then none has begun.
  Team(int count, std::function<void(int member)> work);
  ~Team();  // waits for all
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] int count() const { return static_cast<int>(threads_.size()); }
  void join();  // waits until all work has returned

 private:
  enum class Gate : std::uint8_t { closed, open, called_off };
  void let(Gate gate);

  std::function<void(int)> work_;
  std::atomic<Gate> gate_{Gate::closed};
  std::vector<std::thread> threads_;
};

}  // namespace weir
