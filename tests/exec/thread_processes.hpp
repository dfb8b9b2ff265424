// Processes of the tests that are threads of this one: messages are copied through memory, and the first failure ends
// all. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

#include "exec/processes.hpp"

namespace weir {

struct ThreadMail {
  explicit ThreadMail(int processes) : count(processes) {}
  const int count;
  std::mutex mutex;
  std::map<std::tuple<int, int, int>, std::vector<std::vector<std::byte>>> sent;  // by from, to, tag
  int at_barrier = 0;
  std::int64_t barriers = 0;
  std::optional<Ending> failure;
};

class ThreadProcesses : public Processes {
 public:
  ThreadProcesses(ThreadMail& mail, int index) : mail_(mail), index_(index) {
    for (int p = 0; p < mail.count; ++p) places_.push_back({"here", 1, p, mail.count, p});
  }
  [[nodiscard]] int index() const override { return index_; }
  [[nodiscard]] int count() const override { return mail_.count; }
  [[nodiscard]] const ProcessPlace& place(int process) const override {
    return places_[static_cast<std::size_t>(process)];
  }
  [[nodiscard]] bool oversubscribed() const override { return true; }
  [[nodiscard]] std::string description() const override { return "threads of a test"; }

  [[nodiscard]] Ticket start_send(int to, int tag, std::span<const std::byte> data) override {
    const std::scoped_lock lock(mail_.mutex);
    mail_.sent[{index_, to, tag}].emplace_back(data.begin(), data.end());
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
      const std::scoped_lock lock(mail_.mutex);
      const auto& messages = mail_.sent[receive.key];
      if (messages.size() <= receive.number) return false;
      const std::vector<std::byte>& message = messages[receive.number];
      if (message.size() != receive.into.size()) throw std::logic_error("a message of another size");
      std::memcpy(receive.into.data(), message.data(), message.size());
      return true;
    });
  }
  void wait_until(const std::function<bool()>& ready) override {
    for (;;) {
      {
        const std::scoped_lock lock(mail_.mutex);
        if (mail_.failure) throw Transport::Stopped{};
      }
      if (ready()) return;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  void barrier() override {
    std::int64_t before = 0;
    {
      const std::scoped_lock lock(mail_.mutex);
      before = mail_.barriers;
      if (++mail_.at_barrier == mail_.count) {
        mail_.at_barrier = 0;
        ++mail_.barriers;
      }
    }
    wait_until([&] {
      const std::scoped_lock lock(mail_.mutex);
      return mail_.barriers > before;
    });
  }
  [[nodiscard]] Ending conclude(const std::optional<Ending>& own) override {
    const std::scoped_lock lock(mail_.mutex);
    if (!mail_.failure) mail_.failure = own.value_or(Ending{6, "stopped for no known reason"});
    return *mail_.failure;
  }

 private:
  struct Awaited {
    std::tuple<int, int, int> key;
    std::size_t number = 0;
    std::span<std::byte> into;
  };
  ThreadMail& mail_;
  int index_;
  std::vector<ProcessPlace> places_;
  std::map<std::tuple<int, int, int>, std::size_t> taken_;
  std::vector<Awaited> awaited_;
};

}  // namespace weir
