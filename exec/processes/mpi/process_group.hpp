// The processes of a run over a wire. One lock stands before the wire, and whoever holds it may
// call: the main thread while it waits, the courier, a thread of its own, while the main thread
// computes. Each time round they also look for word of failures and give signs of life to the next
// process, which notices when they stop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/processes/processes.hpp"
#include "exec/processes/wire.hpp"

namespace weir {

class ProcessGroup : public Processes {
 public:
  struct Options {
    std::chrono::nanoseconds patience = std::chrono::seconds(10);  // silent for longer: gone
    std::function<void(const std::string& line)>
        speak;  // how the run ended; called on one process, once
  };
  // Collective.
  ProcessGroup(std::unique_ptr<Wire> wire, Options options);
  // Collective: waits for all, unless the run was concluded.
  ~ProcessGroup() override;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  [[nodiscard]] int index() const override { return index_; }
  [[nodiscard]] int count() const override { return count_; }
  [[nodiscard]] const ProcessPlace& place(int process) const override {
    return places_[static_cast<std::size_t>(process)];
  }
  [[nodiscard]] bool oversubscribed() const override { return oversubscribed_; }
  [[nodiscard]] std::string description() const override { return wire_->description(); }
  [[nodiscard]] Ticket start_send(int to, int tag, std::span<const std::byte> data) override;
  [[nodiscard]] Ticket start_receive(int from, int tag, std::span<std::byte> data) override;
  void wait(Ticket ticket) override;
  void wait_until(const std::function<bool()>& ready) override;  // calls `ready` with the lock held
  void barrier() override;
  // Speaks on the leader, or on the next in line where it is gone; waits until all have stopped,
  // and leaves the wire, so that memory given to messages may go. Where a process is gone, or does
  // not stop in time, it is abandoned.
  [[nodiscard]] Ending conclude(const std::optional<Ending>& own) override;

  // For a transport on the same wire, and for its messages alone.
  [[nodiscard]] std::mutex& lock() { return mutex_; }
  [[nodiscard]] Wire& wire() { return *wire_; }
  void on_poll(std::function<void()> progress);  // called with the lock held; empty: no more

 private:
  struct Failure {
    Ending ending;
    std::optional<int> gone;  // the process that failed, where it gives no more signs of life
  };
  struct Letter {  // on the control channel
    int from = 0;
    int tag = 0;
    std::string text;
    Wire::Request request = 0;
  };
  using Meeting = std::array<std::optional<Wire::Request>,
                             2>;  // in a round of a barrier: to one process, from another

  void poll();  // with the lock held, as all below
  void read_control();
  void read(const Letter& letter);
  void look_for_gone();
  void give_sign();
  void fail_by(int gone, const std::string& how);
  void tell_all(int tag, const Ending& ending);
  [[nodiscard]] bool stopped() const { return failure_.has_value() || verdict_.has_value(); }
  [[nodiscard]] bool is_gone(int process) const;
  [[nodiscard]] bool any_gone() const;
  [[nodiscard]] bool leads() const;
  [[nodiscard]] Ending agree(const std::optional<Ending>& own);
  [[nodiscard]] bool all_stop();
  [[nodiscard]] Meeting meet(int distance, int round);
  [[nodiscard]] bool finished(Meeting& both);
  [[nodiscard]] bool poll_until(const std::function<bool()>& ready, std::chrono::nanoseconds limit);
  void speak(const std::string& line);
  void rest(int round);
  void run_courier();

  Options options_;
  std::unique_ptr<Wire> wire_;
  int index_ = 0;
  int count_ = 1;
  std::vector<ProcessPlace> places_;
  bool oversubscribed_ = false;

  std::mutex mutex_;  // before every call of the wire and before what follows
  std::function<void()> progress_;
  std::optional<Failure> failure_;  // the first one heard of
  std::optional<Ending> verdict_;   // the leader's
  std::optional<Ending> concluded_;
  bool spoke_ = false;
  std::optional<Letter> arriving_;
  std::deque<std::string> letters_;  // under way; never freed before the end
  std::int64_t polled_ns_ = 0, heard_ns_ = 0, gave_sign_ns_ = 0;
  std::optional<Wire::Request> sign_;
  bool left_ = false;

  std::atomic<bool> waiting_{false};  // the main thread polls itself
  std::atomic<bool> closing_{false};
  std::thread courier_;
};

}  // namespace weir
