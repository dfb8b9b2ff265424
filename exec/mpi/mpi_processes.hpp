// The processes of a run over MPI. One lock stands before MPI, and whoever holds it may call: the main thread while it
// waits, the courier, a thread of its own, while the main thread computes. Each time round they also look for word of
// failures and give signs of life to the next process, which notices when they stop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/processes.hpp"

namespace weir {

class MpiProcesses : public Processes {
 public:
  struct Options {
    std::chrono::nanoseconds patience = std::chrono::seconds(10);  // silent for longer: gone
    std::function<void(const std::string& line)> speak;            // how the run ended; called on one process, once
  };
  // Collective. Throws RunFailed where MPI cannot be used by several threads in turn.
  explicit MpiProcesses(Options options);
  // Collective: waits for all, unless the run was concluded.
  ~MpiProcesses() override;
  MpiProcesses(const MpiProcesses&) = delete;
  MpiProcesses& operator=(const MpiProcesses&) = delete;

  [[nodiscard]] int index() const override { return index_; }
  [[nodiscard]] int count() const override { return count_; }
  [[nodiscard]] const ProcessPlace& place(int process) const override {
    return places_[static_cast<std::size_t>(process)];
  }
  [[nodiscard]] bool oversubscribed() const override { return oversubscribed_; }
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] Ticket start_send(int to, int tag, std::span<const std::byte> data) override;
  [[nodiscard]] Ticket start_receive(int from, int tag, std::span<std::byte> data) override;
  void wait(Ticket ticket) override;
  void wait_until(const std::function<bool()>& ready) override;  // calls `ready` with the lock held
  void barrier() override;
  // Speaks on the leader, waits until all have stopped, and leaves MPI, so that memory given to messages may go. Where
  // a process is gone, or does not stop in time, this ends the program (MPI_Abort).
  [[nodiscard]] Ending conclude(const std::optional<Ending>& own) override;

  // For a transport on the same MPI, and for its messages alone.
  [[nodiscard]] std::mutex& lock() { return mutex_; }
  [[nodiscard]] MPI_Comm edges() const { return edges_; }
  [[nodiscard]] MPI_Comm credits() const { return credits_; }
  void on_poll(std::function<void()> progress);  // called with the lock held; empty: no more

 private:
  struct Failure {
    Ending ending;
    bool gone = false;  // the process gives no more signs of life
  };

  void find_places();
  void poll();  // with the lock held, as all below
  void read_control();
  void give_sign();
  void tell_all(int tag, const Ending& ending);
  [[nodiscard]] bool stopped() const { return failure_.has_value() || verdict_.has_value(); }
  [[nodiscard]] Ending agree(const std::optional<Ending>& own);
  [[nodiscard]] bool poll_until(const std::function<bool()>& ready, std::chrono::nanoseconds limit);
  void speak_and_abort(const Ending& ending);
  void rest(int round) const;
  void run_courier();
  void leave();

  Options options_;
  int index_ = 0;
  int count_ = 1;
  std::vector<ProcessPlace> places_;
  bool oversubscribed_ = false;
  MPI_Comm messages_ = MPI_COMM_NULL, control_ = MPI_COMM_NULL, edges_ = MPI_COMM_NULL, credits_ = MPI_COMM_NULL;

  std::mutex mutex_;  // before every call of MPI and before what follows
  std::map<Ticket, std::vector<MPI_Request>> requests_;
  Ticket next_ticket_ = 0;
  std::function<void()> progress_;
  std::optional<Failure> failure_;  // the first one heard of
  std::optional<Ending> verdict_;   // the leader's
  std::optional<Ending> concluded_;
  std::deque<std::string> letters_;  // control messages under way; never freed before the end
  std::int64_t polled_ns_ = 0, heard_ns_ = 0, gave_sign_ns_ = 0;
  MPI_Request sign_ = MPI_REQUEST_NULL;
  bool left_ = false;

  std::atomic<bool> waiting_{false};  // the main thread polls itself
  std::atomic<bool> closing_{false};
  std::thread courier_;
};

}  // namespace weir
