// The processes of a run as threads of this one: messages are copied through mailboxes, one for
// each receiver, so that nobody reads or writes memory that another may have freed. The first
// failure wakes all that wait; memory of a failed thread stays until all others have stopped.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "exec/processes/processes.hpp"

namespace weir {

class ThreadGroup {
 public:
  // So many threads on so many cores: with a core each, waiting may burn it. Both at least 1.
  ThreadGroup(int count, int cores);
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  // As thread `index` sees the group, which outlives it.
  [[nodiscard]] std::unique_ptr<Processes> member(int index);
  [[nodiscard]] bool oversubscribed() const { return oversubscribed_; }

  // Called once, by the first thread that fails: wakes those who wait for something else. Set it
  // before the threads begin.
  void on_stop(std::function<void()> stop) { on_stop_ = std::move(stop); }
  // A thread is done and calls nothing more; one that has concluded need not say so.
  void leave();
  // The thread that failed first; absent where none has.
  [[nodiscard]] std::optional<int> failed() const;

 private:
  class Member;
  // What one thread sends another under one tag, in order.
  struct Line {
    std::int64_t sent = 0, asked = 0;
    std::map<std::int64_t, std::vector<std::byte>> messages;  // by number, until they are taken
    std::vector<std::vector<std::byte>> spare;  // memory of those, for the next: pages stay mapped
  };
  struct Mailbox {  // of a receiver
    std::mutex mutex;
    std::map<std::pair<int, int>, Line> lines;  // by sender and tag
    std::atomic<std::uint32_t> bell{0};         // counts what its owner may wait for
  };

  [[nodiscard]] Mailbox& mailbox(int index) { return *boxes_[static_cast<std::size_t>(index)]; }
  static void ring(Mailbox& box);
  void ring_all();
  void arrive(int index);  // at a barrier; returns when all have
  void fail(int index, const std::optional<Ending>& own);
  enum class Until : std::uint8_t { stopped, ready };
  // Returns when `ready`, which is asked again whenever the bell of `index` has rung; throws
  // Transport::Stopped once the run has failed, unless only `ready` counts.
  template <class Ready>
  void await(int index, Until until, Ready ready);

  std::vector<std::unique_ptr<Mailbox>> boxes_;
  bool oversubscribed_;
  std::function<void()> on_stop_;
  mutable std::mutex mutex_;  // before what follows, which all threads write
  std::optional<Ending> failure_;
  std::optional<int> failed_;
  int at_barrier_ = 0;
  std::atomic<std::int64_t> barriers_{0};
  std::atomic<int> left_{0};
  std::atomic<bool> stopped_{false};
};

}  // namespace weir
