// The processes of a run over MPI. One lock stands before MPI, and whoever holds it may call: the
// main thread while it waits, the progress thread while the main thread computes. Each time round
// they also read control messages (failures, and how the run ended) and send a heartbeat to the
// next process, which notices when it stops.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "exec/processes/mpi/byte_transport.hpp"
#include "exec/processes/processes.hpp"

namespace weir {

class ProcessGroup : public Processes {
 public:
  struct Options {
    std::chrono::nanoseconds patience = std::chrono::seconds(10);  // silent for longer: gone
    // Not all have come within it, or left, in which case it may be known how the run ended: each
    // ends this process.
    std::function<void()> late;
    std::function<void(const std::optional<Ending>& said)> stuck;
    std::function<int(EndKind)> code_of;  // with which MPI ends processes that do not stop
    std::function<void(const std::string& line)>
        speak;  // how the run ended; called on one process, once
  };
  // Collective: starts MPI.
  explicit ProcessGroup(Options options);
  // Collective: waits for all, unless the run was concluded.
  ~ProcessGroup() override;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  [[nodiscard]] int index() const override { return index_; }
  [[nodiscard]] int count() const override { return count_; }
  [[nodiscard]] const ProcessLocation& location(int process) const override {
    return locations_[static_cast<std::size_t>(process)];
  }
  [[nodiscard]] bool oversubscribed() const override { return oversubscribed_; }
  [[nodiscard]] std::string description() const override { return ByteTransport::description(); }
  [[nodiscard]] Ticket start_send(int to, int tag, std::span<const std::byte> data) override;
  [[nodiscard]] Ticket start_receive(int from, int tag, std::span<std::byte> data) override;
  void wait(Ticket ticket) override;
  void wait_until(const std::function<bool()>& ready) override;  // calls `ready` with the lock held
  void barrier() override;
  // Speaks on the leader, or on the next in line where it is gone; waits until all have stopped,
  // and leaves MPI, so that memory given to messages may go. Where a process is gone, or does not
  // stop in time, all are ended and this does not return.
  [[nodiscard]] Ending conclude(const std::optional<Ending>& own) override;

  // For a transport of messages, and for them alone.
  [[nodiscard]] std::mutex& lock() { return mutex_; }
  [[nodiscard]] ByteTransport& bytes() { return bytes_; }
  void on_poll(std::function<void()> progress);  // called with the lock held; empty: no more

 private:
  struct Failure {
    Ending ending;
    std::optional<int> gone;  // the process that failed, where it gives no more signs of life
  };
  struct ControlMessage {  // on the control channel
    int from = 0;
    int tag = 0;
    std::string text;
    ByteTransport::Request request = 0;
  };
  using Meeting = std::array<std::optional<ByteTransport::Request>,
                             2>;  // in a round of a barrier: to one process, from another

  void poll();  // with the lock held, as all below
  void read_control();
  void read(const ControlMessage& message);
  void send_heartbeat();
  void fail_by(int gone, const std::string& how);
  void tell_all(int tag, const Ending& ending);
  [[nodiscard]] bool stopped() const { return failure_.has_value() || status_.has_value(); }
  [[nodiscard]] bool any_gone() const;  // but this one, of which another may think so
  [[nodiscard]] bool leads() const;
  [[nodiscard]] Ending agree(const std::optional<Ending>& own);
  [[nodiscard]] bool all_stop();
  [[nodiscard]] Meeting meet(int distance, int round);
  [[nodiscard]] bool finished(Meeting& both);
  [[nodiscard]] bool poll_until(const std::function<bool()>& ready, std::chrono::nanoseconds limit);
  void speak(const std::string& line);
  [[nodiscard]] ByteTransport::Patience within_mpi(const std::optional<Ending>& said) const;
  void rest(int round);
  void run_progress_thread();

  Options options_;
  ByteTransport bytes_;
  int index_ = 0;
  int count_ = 1;
  std::vector<ProcessLocation> locations_;
  bool oversubscribed_ = false;

  // Before every call of `bytes_` and before what follows, down to `left_`: the main thread and the
  // progress thread take turns.
  std::mutex mutex_;
  std::function<void()> progress_;
  std::optional<Failure> failure_;  // the first one heard of
  std::optional<Ending> status_;    // the leader's: how the run ended
  std::optional<Ending> concluded_;
  bool spoke_ = false;
  std::optional<ControlMessage> arriving_;
  std::deque<std::string> control_texts_;  // under way; never freed before the end
  std::int64_t polled_ns_ = 0, heard_ns_ = 0, beat_ns_ = 0;
  std::optional<ByteTransport::Request> heartbeat_;
  bool left_ = false;

  std::atomic<bool> waiting_{false};  // the main thread polls itself
  std::atomic<bool> closing_{false};
  std::thread progress_thread_;
};

}  // namespace weir
