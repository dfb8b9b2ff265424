// Messages over TCP: one connection to each other process, on which each message is a head and its
// bytes. A message that is asked for is received in place; one that is not waits in memory of its
// own, so that nothing stands in its way of those behind it, word of failures above all. A
// connection that ends without a goodbye is a process that is gone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "exec/processes/wire.hpp"
#include "exec/socket/socket.hpp"

namespace weir {

class SocketWire : public Wire {
 public:
  struct Options {
    int index = 0;
    std::chrono::nanoseconds patience =
        std::chrono::seconds(10);  // with those who do not leave when all do
  };
  // `peers`: as `rendezvous` returns them.
  SocketWire(std::vector<Socket> peers, Options options);
  SocketWire(const SocketWire&) = delete;
  SocketWire& operator=(const SocketWire&) = delete;

  [[nodiscard]] int index() const override { return options_.index; }
  [[nodiscard]] int count() const override { return static_cast<int>(peers_.size()); }
  [[nodiscard]] std::string description() const override { return "TCP"; }
  [[nodiscard]] Request start_send(int to, Channel channel, int tag,
                                   std::span<const std::byte> data) override;
  [[nodiscard]] Request start_receive(int from, Channel channel, int tag,
                                      std::span<std::byte> data) override;
  [[nodiscard]] bool done(Request request) override;
  [[nodiscard]] std::optional<Arrival> arrival(Channel channel) override;
  [[nodiscard]] Request take(Channel channel, std::span<std::byte> data) override;
  void progress() override;
  [[nodiscard]] bool gone(int process) const override;
  [[nodiscard]] bool heard(int process) override;
  void rest(std::chrono::nanoseconds limit) override;
  void leave() override;
  void abandon(int exit_code, std::chrono::nanoseconds delay) override;

 private:
  struct Head {
    std::uint64_t bytes = 0;
    std::int32_t tag = 0;
    std::uint32_t channel = 0;
  };
  struct Parcel {  // a message that comes, or is asked for
    int from = 0;
    Channel channel{};
    int tag = 0;
    std::size_t bytes = 0;
    std::size_t read = 0;
    bool begun = false;                 // its head is here
    bool offered = false;               // and who might take it has had time to
    std::byte* into = nullptr;          // null: nobody wants it yet
    std::unique_ptr<std::byte[]> kept;  // where nobody did in time
    Request request = -1;               // of who wants it
  };
  using Parcels = std::list<Parcel>;  // by channel, in order of heads and of requests
  struct Sending {
    Head head;
    std::span<const std::byte> data;
    std::size_t sent = 0;  // of head and data
    Request request = -1;
  };
  struct Peer {
    Socket socket;
    std::deque<Sending> sending;
    Head head;
    std::size_t head_read = 0;
    Parcels::iterator parcel;  // the one whose bytes come next, when the head is whole
    bool heard = false;
    bool left = false;           // said goodbye
    bool closed = false;         // nothing more comes
    std::atomic<short> awaited;  // poll's events, for `rest`
  };

  [[nodiscard]] Request open();
  void finish(Request request) { done_[static_cast<std::size_t>(request)] = 1; }
  void enqueue(Peer& peer, const Sending& sending);
  [[nodiscard]] std::vector<pollfd> awaited() const;
  void look(std::chrono::nanoseconds limit);
  void read(int from);
  [[nodiscard]] std::size_t read_head(int from);  // how much it read
  [[nodiscard]] std::size_t read_body(Peer& peer);
  void begin_parcel(int from);
  void finish_parcel(Peer& peer);
  void want(Parcels& parcels, Parcels::iterator parcel, std::span<std::byte> data, Request request);
  void write(Peer& peer);
  void close(Peer& peer);
  void say_goodbye(std::chrono::nanoseconds limit);

  Options options_;
  std::vector<std::unique_ptr<Peer>> peers_;  // null: this process
  std::array<Parcels, kChannels> parcels_;
  std::vector<std::uint8_t> done_;  // by request
  std::vector<Request> free_;       // of them
};

}  // namespace weir
