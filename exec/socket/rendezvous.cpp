// SPDX-License-Identifier: Apache-2.0
#include "exec/socket/rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "exec/socket/rendezvous_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 20ms;       // between two looks at the file
constexpr auto kNoticeLimit = 2s;  // for a word to one process
constexpr std::uint64_t kMostText = 1 << 24;

Deadline now() { return std::chrono::steady_clock::now(); }
std::size_t at(int index) { return static_cast<std::size_t>(index); }

RunNumber new_run() {
  std::random_device source;
  RunNumber run;
  for (std::uint8_t& byte : run) byte = static_cast<std::uint8_t>(source());
  return run;
}

// Between process 0 and another: an exit code, 0 while all is well, and text.
bool send_notice(const Socket& to, const Ending& notice) {
  const std::array<std::uint64_t, 2> head{static_cast<std::uint64_t>(notice.exit_code),
                                          notice.line.size()};
  return send_all(to, std::as_bytes(std::span(head)), now() + kNoticeLimit) &&
         send_all(to, std::as_bytes(std::span(notice.line)), now() + kNoticeLimit);
}

std::optional<Ending> receive_notice(const Socket& from, Deadline deadline) {
  std::array<std::uint64_t, 2> head{};
  if (!receive_all(from, std::as_writable_bytes(std::span(head)), deadline) || head[1] > kMostText)
    return std::nullopt;
  Ending notice{static_cast<int>(head[0]), std::string(head[1], ' ')};
  if (!receive_all(from, std::as_writable_bytes(std::span(notice.line)), deadline))
    return std::nullopt;
  return notice;
}

class Meeting {
 public:
  explicit Meeting(const RendezvousRequest& request)
      : request_(request),
        own_(own_greeting(request.index, request.count, lobby_.port())),
        peers_(at(request.count)) {}

  std::vector<Socket> lead() {
    own_.run = new_run();
    try {
      {
        const RendezvousFile file(request_.file, own_);
        gather(file);
      }
      introduce();
    } catch (...) {
      const Ending ending = ending_of(std::current_exception());
      for (const Socket& peer : peers_) {
        if (peer) static_cast<void>(send_notice(peer, ending));
      }
      throw;
    }
    return std::move(peers_);
  }

  std::vector<Socket> join() {
    const std::vector<Greeting> others = find_leader();
    Ending report;
    try {
      connect(others);
    } catch (const std::exception& error) {
      report = {6, fmt::format("{}: process {} on {}: {}", request_.file.string(), own_.index,
                               own_.host.data(), error.what())};
    }
    static_cast<void>(send_notice(peers_[0], report));
    const auto all_well = receive_notice(peers_[0], now() + 2 * request_.patience);
    if (!all_well) throw failed("process 0 went away while the processes met");
    if (all_well->exit_code != 0) throw Dismissed{*all_well};
    return std::move(peers_);
  }

 private:
  [[nodiscard]] RunFailed failed(const std::string& what) const {
    return RunFailed(fmt::format("{}: {}", request_.file.string(), what));
  }
  [[nodiscard]] UsageError misused(const std::string& what) const {
    return UsageError(fmt::format("{}: {}", request_.file.string(), what));
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(request_.patience).count();
  }

  void gather(const RendezvousFile& file) {
    const Deadline deadline = now() + request_.patience;
    greetings_.assign(peers_.size(), own_);
    for (int missing = request_.count - 1; missing > 0;) {
      auto guest = lobby_.next(own_, std::min(deadline, now() + kLook));
      if (guest) missing -= seat(std::move(*guest)) ? 1 : 0;
      if (!file.stands())
        throw misused("another process 0 has written it; a file is for one run at a time");
      if (missing > 0 && now() > deadline) {
        throw failed(fmt::format("waited {:.1f} s for {} processes; there is no {}", seconds(),
                                 request_.count, absent()));
      }
    }
  }

  [[nodiscard]] std::string absent() const {
    std::string names;
    for (int process = 1; process < request_.count; ++process) {
      if (!peers_[at(process)])
        names += fmt::format("{}process {}", names.empty() ? "" : ", ", process);
    }
    return names;
  }

  // Whether the seat was free: one whose process has gone is given to the next.
  bool seat(Lobby::Guest guest) {
    const Greeting& greeting = guest.greeting;
    if (greeting.count != request_.count) {
      send_fault(guest.socket,
                 misused(fmt::format(
                     "process {} was started as one of {} processes, process 0 as one of {}",
                     greeting.index, greeting.count, request_.count)));
    }
    const bool taken = greeting.index <= 0 || greeting.index >= request_.count ||
                       (peers_[at(greeting.index)] && !is_closed(peers_[at(greeting.index)]));
    if (taken) {
      send_fault(guest.socket, misused(fmt::format(
                                   "two processes were started as process {} (the other is on {})",
                                   greeting.index, greeting.host.data())));
    }
    const bool fresh = !peers_[at(greeting.index)];
    greetings_[at(greeting.index)] = greeting;
    peers_[at(greeting.index)] = std::move(guest.socket);
    return fresh;
  }

  [[noreturn]] static void send_fault(const Socket& guest, const UsageError& fault) {
    static_cast<void>(send_notice(guest, {2, fault.what()}));
    throw fault;
  }

  // Tells all who there is, and lets them go when each is connected with each.
  void introduce() {
    const Ending table{0, std::string(reinterpret_cast<const char*>(greetings_.data()),
                                      greetings_.size() * sizeof(Greeting))};
    for (int process = 1; process < request_.count; ++process) {
      if (!send_notice(peers_[at(process)], table)) throw went_away(process);
    }
    const Deadline deadline = now() + request_.patience + kNoticeLimit;
    for (int process = 1; process < request_.count; ++process) {
      const auto report = receive_notice(peers_[at(process)], deadline);
      if (!report) throw went_away(process);
      if (report->exit_code != 0) throw RunFailed(report->line);
    }
    for (int process = 1; process < request_.count; ++process) {
      if (!send_notice(peers_[at(process)], {0, ""})) throw went_away(process);
    }
  }

  [[nodiscard]] RunFailed went_away(int process) const {
    return failed(fmt::format("process {} on {} went away while the processes met", process,
                              greetings_[at(process)].host.data()));
  }

  // An earlier run's file leads nowhere, or to somebody who does not answer so: look again until
  // the patience is over.
  [[nodiscard]] std::vector<Greeting> find_leader() {
    const Deadline deadline = now() + request_.patience;
    for (bool seen = false;;) {
      if (const auto leader = read_rendezvous(request_.file)) {
        seen = true;
        own_.run = leader->run;
        peers_[0] = reach(*leader, own_, deadline);
        if (peers_[0]) {
          const auto table = receive_notice(peers_[0], now() + request_.patience + kNoticeLimit);
          if (table && table->exit_code != 0) throw Dismissed{*table};
          if (table) return read_table(table->line);
        }
      }
      if (now() > deadline) {
        throw failed(
            fmt::format("waited {:.1f} s for process 0 of {}, which {}", seconds(), request_.count,
                        seen ? "does not answer: the file is another run's" : "writes this file"));
      }
      std::this_thread::sleep_for(kLook);
    }
  }

  [[nodiscard]] std::vector<Greeting> read_table(const std::string& text) const {
    std::vector<Greeting> table(peers_.size());
    if (text.size() != table.size() * sizeof(Greeting))
      throw failed("process 0 runs another version of weir");
    std::memcpy(table.data(), text.data(), text.size());
    return table;
  }

  void connect(const std::vector<Greeting>& others) {
    const Deadline deadline = now() + request_.patience;
    for (int process = 1; process < request_.index; ++process) {
      peers_[at(process)] = reach(others[at(process)], own_, deadline);
      if (!peers_[at(process)]) {
        throw RunFailed(fmt::format("cannot connect to process {} on {} (port {})", process,
                                    others[at(process)].host.data(), others[at(process)].port));
      }
    }
    for (int missing = request_.count - 1 - request_.index; missing > 0; --missing) {
      auto guest = lobby_.next(own_, deadline);
      if (!guest) throw RunFailed("others do not connect to it");
      peers_.at(at(guest->greeting.index)) = std::move(guest->socket);
    }
  }

  const RendezvousRequest& request_;
  Lobby lobby_;
  Greeting own_;
  std::vector<Greeting> greetings_;  // process 0's list of all
  std::vector<Socket> peers_;
};

}  // namespace

std::vector<Socket> rendezvous(const RendezvousRequest& request) {
  if (request.count == 1) return std::vector<Socket>(1);
  Meeting meeting(request);
  return request.index == 0 ? meeting.lead() : meeting.join();
}

}  // namespace weir
