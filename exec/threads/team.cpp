// Threads behind a gate, which opens once all are there.
// SPDX-License-Identifier: Apache-2.0
#include "exec/threads/team.hpp"

#include <fmt/format.h>

#include <new>
#include <system_error>
#include <utility>

#include "plan/words/error.hpp"

namespace weir {

Team::Team(int count, std::function<void(int)> work) : work_(std::move(work)) {
  const auto called_off = [&](const char* why) {
    // Those that were made still wait at the gate: they leave without having worked.
    let(Gate::called_off);
    join();
    return RunFailed(fmt::format("{} threads are needed, number {} cannot be made: {}", count,
                                 threads_.size() + 1, why));
  };
  try {
    threads_.reserve(static_cast<std::size_t>(count));
    for (int member = 0; member < count; ++member) {
      threads_.emplace_back([this, member] {
        gate_.wait(Gate::closed);
        if (gate_ == Gate::open) work_(member);
      });
    }
  } catch (const std::system_error& error) {
    throw called_off(error.code().message().c_str());
  } catch (const std::bad_alloc&) {
    throw called_off("out of memory");
  }
  let(Gate::open);
}

Team::~Team() { join(); }

void Team::join() {
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Team::let(Gate gate) {
  gate_ = gate;
  gate_.notify_all();
}

}  // namespace weir
