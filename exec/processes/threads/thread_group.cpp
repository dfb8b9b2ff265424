// Mailboxes with a bell each; a barrier, a failure and a thread that leaves ring all of them.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/threads/thread_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace weir {

class ThreadGroup::Member : public Processes {
 public:
  Member(ThreadGroup& group, int index) : group_(group), index_(index) {
    for (int thread = 0; thread < count(); ++thread)
      locations_.push_back({"this host", 1, thread, count(), thread});
  }
  [[nodiscard]] int index() const override { return index_; }
  [[nodiscard]] int count() const override { return static_cast<int>(group_.boxes_.size()); }
  [[nodiscard]] const ProcessLocation& location(int process) const override {
    return locations_[static_cast<std::size_t>(process)];
  }
  [[nodiscard]] bool oversubscribed() const override { return group_.oversubscribed_; }
  [[nodiscard]] std::string description() const override { return "threads of one process"; }

  [[nodiscard]] Ticket start_send(int to, int tag, std::span<const std::byte> data) override {
    Mailbox& box = group_.mailbox(to);
    std::vector<std::byte> message;
    {
      const std::scoped_lock lock(box.mutex);  // its lines: the owner's and all senders'
      auto& spare = box.lines[{index_, tag}].spare;
      if (!spare.empty()) {
        message = std::move(spare.back());
        spare.pop_back();
      }
    }
    message.assign(data.begin(), data.end());
    {
      const std::scoped_lock lock(box.mutex);  // as above; not held while bytes are copied
      Line& line = box.lines[{index_, tag}];
      line.messages.emplace(line.sent++, std::move(message));
    }
    ring(box);
    return kSent;
  }
  [[nodiscard]] Ticket start_receive(int from, int tag, std::span<std::byte> data) override {
    Mailbox& box = group_.mailbox(index_);
    const std::scoped_lock lock(box.mutex);  // as in start_send
    // Numbered by who asks: the n-th receive of a line takes its n-th message, whenever either
    // comes.
    const Awaited awaited{{from, tag}, box.lines[{from, tag}].asked++, data};
    // Tickets are used again, so that a run of many steps keeps as many as are open at once.
    if (free_.empty()) {
      awaited_.push_back(awaited);
      return static_cast<Ticket>(awaited_.size()) - 1;
    }
    const Ticket ticket = free_.back();
    free_.pop_back();
    awaited_[static_cast<std::size_t>(ticket)] = awaited;
    return ticket;
  }
  void wait(Ticket ticket) override {
    if (ticket == kSent) return;
    const Awaited receive = awaited_[static_cast<std::size_t>(ticket)];
    group_.await(index_, Until::stopped, [&] { return take(receive); });
    free_.push_back(ticket);
  }
  // What it waits for rings no bell.
  void wait_until(const std::function<bool()>& ready) override {
    while (!ready()) {
      if (group_.stopped_.load()) throw Transport::Stopped{};
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  void barrier() override { group_.arrive(index_); }
  // Returns when all have concluded or left: until then others may move what is this thread's.
  [[nodiscard]] Ending conclude(const std::optional<Ending>& own) override {
    if (!std::exchange(concluded_, true)) {
      group_.fail(index_, own);
      group_.leave();
    }
    group_.await(index_, Until::ready, [this] { return group_.left_.load() == count(); });
    const std::scoped_lock lock(group_.mutex_);  // others have written it
    return *group_.failure_;
  }

 private:
  struct Awaited {
    std::pair<int, int> line;
    std::int64_t number = 0;
    std::span<std::byte> into;
  };
  static constexpr Ticket kSent = -1;  // was copied at once

  [[nodiscard]] bool take(const Awaited& receive) {
    Mailbox& box = group_.mailbox(index_);
    std::vector<std::byte> message;
    {
      const std::scoped_lock lock(box.mutex);  // as in start_send
      Line& line = box.lines[receive.line];
      const auto found = line.messages.find(receive.number);
      if (found == line.messages.end()) return false;
      message = std::move(found->second);
      line.messages.erase(found);
    }
    if (message.size() != receive.into.size()) {
      throw std::logic_error(fmt::format("a message of {} bytes came where {} were awaited",
                                         message.size(), receive.into.size()));
    }
    std::ranges::copy(message, receive.into.begin());
    const std::scoped_lock lock(box.mutex);  // as in start_send
    box.lines[receive.line].spare.push_back(std::move(message));
    return true;
  }

  ThreadGroup& group_;
  int index_;
  std::vector<ProcessLocation> locations_;
  std::vector<Awaited> awaited_;  // by ticket
  std::vector<Ticket> free_;      // of them
  bool concluded_ = false;
};

ThreadGroup::ThreadGroup(int count, int cores) : oversubscribed_(count > cores) {
  for (int thread = 0; thread < count; ++thread) boxes_.push_back(std::make_unique<Mailbox>());
}

std::unique_ptr<Processes> ThreadGroup::member(int index) {
  return std::make_unique<Member>(*this, index);
}

void ThreadGroup::ring(Mailbox& box) {
  // Release: who hears the bell finds what was written before it.
  box.bell.fetch_add(1, std::memory_order_release);
  box.bell.notify_all();
}

void ThreadGroup::ring_all() {
  for (const auto& box : boxes_) ring(*box);
}

template <class Ready>
void ThreadGroup::await(int index, Until until, Ready ready) {
  Mailbox& box = mailbox(index);
  for (int round = 0;; ++round) {
    // Before the looks, so that what comes between a look and the wait ends the wait.
    const std::uint32_t heard = box.bell.load(std::memory_order_acquire);
    if (until == Until::stopped && stopped_.load()) throw Transport::Stopped{};
    if (ready()) return;
    if (oversubscribed_) {
      box.bell.wait(heard, std::memory_order_acquire);
      continue;
    }
    // A core of its own may be burnt, for a while; then somebody else may need it.
    while (box.bell.load(std::memory_order_acquire) == heard) {
      if (++round > 20'000) {
        std::this_thread::yield();
      } else {
#if defined(__x86_64__)
        __builtin_ia32_pause();  // the core may be half of one
#endif
      }
    }
  }
}

void ThreadGroup::arrive(int index) {
  std::int64_t before = 0;
  bool last = false;
  {
    const std::scoped_lock lock(mutex_);  // the count, which all threads write
    before = barriers_.load();
    last = ++at_barrier_ == static_cast<int>(boxes_.size());
    if (last) {
      at_barrier_ = 0;
      ++barriers_;
    }
  }
  // Outside of the lock: those that the bell wakes take it at once.
  if (last) return ring_all();
  await(index, Until::stopped, [&] { return barriers_.load() > before; });
}

void ThreadGroup::fail(int index, const std::optional<Ending>& own) {
  bool first = false;
  {
    const std::scoped_lock lock(mutex_);  // several may fail at once
    if (own && !failed_) {
      failed_ = index;
      failure_ = own;
    } else if (!failure_) {
      failure_ = Ending{EndKind::failed, "stopped for no known reason"};
    }
    first = !stopped_.exchange(true);
  }
  // Once, by the first to fail, and outside of the lock: what it stops may call back.
  if (first && on_stop_) on_stop_();
  ring_all();
}

void ThreadGroup::leave() {
  ++left_;
  ring_all();
}

std::optional<int> ThreadGroup::failed() const {
  const std::scoped_lock lock(mutex_);  // as in `fail`
  return failed_;
}

}  // namespace weir
