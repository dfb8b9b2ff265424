// Processes of the tests that are threads of this one: messages are copied through memory, and the
// first failure ends all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "exec/processes/process_run.hpp"
#include "exec/processes/processes.hpp"

namespace weir {

struct ThreadMessages {
  explicit ThreadMessages(int processes) : count(processes) {}
  const int count;
  std::mutex mutex;
  std::map<std::tuple<int, int, int>, std::vector<std::vector<std::byte>>>
      sent;  // by from, to, tag
  int at_barrier = 0;
  std::int64_t barriers = 0;
  std::int64_t bytes = 0;  // of all messages
  std::optional<Ending> failure;
};

class ThreadProcesses : public Processes {
 public:
  ThreadProcesses(ThreadMessages& messages, int index) : messages_(messages), index_(index) {
    for (int p = 0; p < messages.count; ++p)
      locations_.push_back({"here", 1, p, messages.count, p});
  }
  [[nodiscard]] int index() const override { return index_; }
  [[nodiscard]] int count() const override { return messages_.count; }
  [[nodiscard]] const ProcessLocation& location(int process) const override {
    return locations_[static_cast<std::size_t>(process)];
  }
  [[nodiscard]] bool oversubscribed() const override { return true; }
  [[nodiscard]] std::string description() const override { return "threads of a test"; }

  [[nodiscard]] Ticket start_send(int to, int tag, std::span<const std::byte> data) override {
    const std::scoped_lock lock(messages_.mutex);
    messages_.bytes += static_cast<std::int64_t>(data.size());
    messages_.sent[{index_, to, tag}].emplace_back(data.begin(), data.end());
    return -1;
  }
  [[nodiscard]] Ticket start_receive(int from, int tag, std::span<std::byte> data) override {
    const std::tuple<int, int, int> key{from, index_, tag};
    awaited_.push_back({key, taken_[key]++, data});
    return static_cast<Ticket>(awaited_.size()) - 1;
  }
  void wait(Ticket ticket) override {
    if (ticket < 0) return;
    const Awaited& receive = awaited_[static_cast<std::size_t>(ticket)];
    wait_until([&] {
      const std::scoped_lock lock(messages_.mutex);
      const auto& messages = messages_.sent[receive.key];
      if (messages.size() <= receive.number) return false;
      const std::vector<std::byte>& message = messages[receive.number];
      if (message.size() != receive.into.size())
        throw std::logic_error("a message of another size");
      std::copy(message.begin(), message.end(), receive.into.begin());
      return true;
    });
  }
  void wait_until(const std::function<bool()>& ready) override {
    for (;;) {
      {
        const std::scoped_lock lock(messages_.mutex);
        if (messages_.failure) throw Transport::Stopped{};
      }
      if (ready()) return;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  void barrier() override {
    std::int64_t before = 0;
    {
      const std::scoped_lock lock(messages_.mutex);
      before = messages_.barriers;
      if (++messages_.at_barrier == messages_.count) {
        messages_.at_barrier = 0;
        ++messages_.barriers;
      }
    }
    wait_until([&] {
      const std::scoped_lock lock(messages_.mutex);
      return messages_.barriers > before;
    });
  }
  [[nodiscard]] Ending conclude(const std::optional<Ending>& own) override {
    const std::scoped_lock lock(messages_.mutex);
    if (!messages_.failure)
      messages_.failure = own.value_or(Ending{EndKind::failed, "stopped for no known reason"});
    return *messages_.failure;
  }

 private:
  struct Awaited {
    std::tuple<int, int, int> key;
    std::size_t number = 0;
    std::span<std::byte> into;
  };
  ThreadMessages& messages_;
  int index_;
  std::vector<ProcessLocation> locations_;
  std::map<std::tuple<int, int, int>, std::size_t> taken_;
  std::vector<Awaited> awaited_;
};

using Endings = std::set<std::pair<EndKind, std::string>>;
struct ThreadsResult {
  RunResult leaders;
  Endings endings;         // of processes that failed, as they agreed
  std::int64_t bytes = 0;  // that processes sent each other
};

// One thread a process, K * T * D of them, each with backends and links of its own.
inline ThreadsResult run_as_threads(const ResolvedPlan& loaded, const RunOptions& options,
                                    const std::function<Backends(int process)>& backends,
                                    const std::function<ProcessLinks(Processes&)>& links) {
  const int count = loaded.plan.pp * loaded.plan.tp * loaded.plan.dp;
  ThreadMessages messages(count);
  ThreadsResult result;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int p = 0; p < count; ++p) {
    threads.emplace_back([&, p] {
      ThreadProcesses processes(messages, p);
      const auto end = [&](const std::optional<Ending>& own) {
        const Ending ending = processes.conclude(own);
        const std::scoped_lock lock(mutex);
        result.endings.emplace(ending.kind, ending.line);
      };
      try {
        RunResult own = run_as_process(loaded, options, backends(p), processes, links(processes));
        if (p == 0) result.leaders = std::move(own);
      } catch (const Transport::Stopped&) {
        end({});
      } catch (...) {
        end(ending_of(std::current_exception()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  result.bytes = messages.bytes;
  return result;
}

}  // namespace weir
