// SPDX-License-Identifier: Apache-2.0
#include "exec/socket/socket_wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <thread>

#include "plan/words/error.hpp"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kGoodbye = kChannels;  // the channel of the last head
constexpr std::size_t kMostAtOnce = std::size_t{16}
                                    << 20;  // from one process, before others are looked at
constexpr auto kMostForGoodbye = 2s;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

RunFailed another_size(std::size_t came, std::size_t awaited) {
  return RunFailed(
      fmt::format("a message of {} bytes came where one of {} was awaited", came, awaited));
}

timespec spec(std::chrono::nanoseconds time) {
  return {static_cast<std::time_t>(time / 1s), static_cast<long>((time % 1s).count())};
}

}  // namespace

SocketWire::SocketWire(std::vector<Socket> peers, Options options) : options_(options) {
  for (Socket& socket : peers) {
    peers_.push_back(socket ? std::make_unique<Peer>() : nullptr);
    if (!socket) continue;
    peers_.back()->socket = std::move(socket);
    peers_.back()->awaited = POLLIN;
  }
}

Wire::Request SocketWire::open() {
  if (free_.empty()) {
    done_.push_back(0);
    return static_cast<Request>(done_.size()) - 1;
  }
  const Request request = free_.back();
  free_.pop_back();
  done_[at(request)] = 0;
  return request;
}

bool SocketWire::done(Request request) {
  if (done_[at(request)] == 0) return false;
  free_.push_back(request);
  return true;
}

Wire::Request SocketWire::start_send(int to, Channel channel, int tag,
                                     std::span<const std::byte> data) {
  const Request request = open();
  enqueue(*peers_[at(to)],
          {{data.size(), tag, static_cast<std::uint32_t>(channel)}, data, 0, request});
  return request;
}

void SocketWire::enqueue(Peer& peer, const Sending& sending) {
  if (peer.closed) return;  // nothing more is done there
  peer.sending.push_back(sending);
  if (peer.sending.size() == 1) write(peer);
}

void SocketWire::write(Peer& peer) {
  while (!peer.sending.empty()) {
    Sending& next = peer.sending.front();
    const auto head = std::as_bytes(std::span(&next.head, 1));
    const std::size_t in_head = std::min(next.sent, head.size());
    const Moved moved =
        send_some(peer.socket, head.subspan(in_head), next.data.subspan(next.sent - in_head));
    // Where the other end has closed, what it has said is still read: that tells how.
    if (moved.closed || moved.bytes == 0) break;
    next.sent += moved.bytes;
    if (next.sent < head.size() + next.data.size()) continue;
    if (next.request >= 0) finish(next.request);
    peer.sending.pop_front();
  }
  peer.awaited = static_cast<short>(POLLIN | (peer.sending.empty() ? 0 : POLLOUT));
}

Wire::Request SocketWire::start_receive(int from, Channel channel, int tag,
                                        std::span<std::byte> data) {
  const Request request = open();
  Parcels& parcels = parcels_[static_cast<std::size_t>(channel)];
  const auto there = std::find_if(parcels.begin(), parcels.end(), [&](const Parcel& parcel) {
    return parcel.from == from && parcel.tag == tag && parcel.request < 0;
  });
  if (there != parcels.end()) {
    want(parcels, there, data, request);
  } else {
    parcels.push_back(
        {from, channel, tag, data.size(), 0, false, false, data.data(), nullptr, request});
  }
  return request;
}

std::optional<Wire::Arrival> SocketWire::arrival(Channel channel) {
  for (const Parcel& parcel : parcels_[static_cast<std::size_t>(channel)]) {
    if (parcel.request < 0) return Arrival{parcel.from, parcel.tag, parcel.bytes};
  }
  return std::nullopt;
}

Wire::Request SocketWire::take(Channel channel, std::span<std::byte> data) {
  Parcels& parcels = parcels_[static_cast<std::size_t>(channel)];
  const auto first = std::find_if(parcels.begin(), parcels.end(),
                                  [](const Parcel& parcel) { return parcel.request < 0; });
  assert(first != parcels.end() && "a message is taken that has arrived");
  const Request request = open();
  want(parcels, first, data, request);
  return request;
}

void SocketWire::want(Parcels& parcels, Parcels::iterator parcel, std::span<std::byte> data,
                      Request request) {
  if (data.size() != parcel->bytes) throw another_size(parcel->bytes, data.size());
  if (parcel->kept && parcel->read > 0) std::memcpy(data.data(), parcel->kept.get(), parcel->read);
  parcel->kept.reset();
  parcel->into = data.data();
  parcel->request = request;
  if (parcel->read < parcel->bytes) {
    read(parcel->from);
  } else {
    finish(request);
    parcels.erase(parcel);
  }
}

void SocketWire::progress() { look(0ns); }

void SocketWire::look(std::chrono::nanoseconds limit) {
  std::vector<pollfd> entries = awaited();
  const timespec time = spec(limit);
  if (::ppoll(entries.data(), entries.size(), &time, nullptr) <= 0) return;
  for (int process = 0; process < count(); ++process) {
    const short found = entries[at(process)].revents;
    if ((found & POLLOUT) != 0) write(*peers_[at(process)]);
    if ((found & (POLLIN | POLLHUP | POLLERR)) != 0) read(process);
  }
}

void SocketWire::read(int from) {
  Peer& peer = *peers_[at(from)];
  for (std::size_t read = 0; !peer.closed && read < kMostAtOnce;) {
    const std::size_t moved = peer.head_read < sizeof(Head) ? read_head(from) : read_body(peer);
    if (moved == 0) return;
    read += moved;
    peer.heard = true;
  }
}

std::size_t SocketWire::read_head(int from) {
  Peer& peer = *peers_[at(from)];
  const Moved moved = receive_some(
      peer.socket, std::as_writable_bytes(std::span(&peer.head, 1)).subspan(peer.head_read));
  if (moved.closed) close(peer);
  peer.head_read += moved.bytes;
  if (peer.head_read < sizeof(Head)) return moved.bytes;
  if (peer.head.channel >= kChannels) {
    peer.left = peer.head.channel == kGoodbye;
    close(peer);
  } else {
    begin_parcel(from);
  }
  return moved.bytes;
}

void SocketWire::begin_parcel(int from) {
  Peer& peer = *peers_[at(from)];
  Parcels& parcels = parcels_[peer.head.channel];
  const auto wanted = std::find_if(parcels.begin(), parcels.end(), [&](const Parcel& parcel) {
    return parcel.from == from && parcel.tag == peer.head.tag && !parcel.begun;
  });
  const bool fits = wanted != parcels.end() && wanted->bytes == peer.head.bytes;
  const auto channel = static_cast<Channel>(peer.head.channel);
  peer.parcel =
      fits ? wanted
           : parcels.insert(parcels.end(), Parcel{from, channel, peer.head.tag, peer.head.bytes, 0,
                                                  false, false, nullptr, nullptr, -1});
  peer.parcel->begun = true;
  if (peer.head.bytes == 0) finish_parcel(peer);
  if (wanted != parcels.end() && !fits) throw another_size(peer.head.bytes, wanted->bytes);
}

std::size_t SocketWire::read_body(Peer& peer) {
  Parcel& parcel = *peer.parcel;
  if (parcel.into == nullptr) {
    // The taker of an edge's message, who knows where it is to lie, looks between this round and
    // the next.
    if (parcel.channel == Channel::edges && !std::exchange(parcel.offered, true)) return 0;
    parcel.kept = std::make_unique_for_overwrite<std::byte[]>(parcel.bytes);
    parcel.into = parcel.kept.get();
  }
  const Moved moved =
      receive_some(peer.socket, {parcel.into + parcel.read, parcel.bytes - parcel.read});
  if (moved.closed) close(peer);
  parcel.read += moved.bytes;
  if (parcel.read == parcel.bytes) finish_parcel(peer);
  return moved.bytes;
}

void SocketWire::finish_parcel(Peer& peer) {
  peer.head_read = 0;
  if (peer.parcel->request < 0) return;  // waits to be taken
  finish(peer.parcel->request);
  parcels_[static_cast<std::size_t>(peer.parcel->channel)].erase(peer.parcel);
}

void SocketWire::close(Peer& peer) {
  peer.closed = true;
  peer.awaited = 0;
  peer.sending.clear();
}

bool SocketWire::gone(int process) const {
  const auto& peer = peers_[at(process)];
  return peer && peer->closed && !peer->left;
}

bool SocketWire::heard(int process) {
  const auto& peer = peers_[at(process)];
  return peer && std::exchange(peer->heard, false);
}

std::vector<pollfd> SocketWire::awaited() const {
  std::vector<pollfd> entries;
  entries.reserve(peers_.size());
  for (const auto& peer : peers_) {
    const short events = peer ? peer->awaited.load() : short{0};
    entries.push_back({events != 0 ? peer->socket.handle() : -1, events, 0});
  }
  return entries;
}

// Sees what is there without touching it: the thread that rests holds no lock.
void SocketWire::rest(std::chrono::nanoseconds limit) {
  std::vector<pollfd> entries = awaited();
  const timespec time = spec(limit);
  ::ppoll(entries.data(), entries.size(), &time, nullptr);
}

void SocketWire::leave() {
  say_goodbye(std::min<std::chrono::nanoseconds>(options_.patience, kMostForGoodbye));
}

void SocketWire::abandon(int, std::chrono::nanoseconds) { leave(); }

// What was sent goes out, and what the others still send is read: a connection that is closed over
// unread bytes is reset, which may take with it what they have not read yet.
void SocketWire::say_goodbye(std::chrono::nanoseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  for (const auto& peer : peers_) {
    if (peer) enqueue(*peer, {{0, 0, kGoodbye}, {}, 0, -1});
  }
  const auto all_closed = [this] {
    return std::all_of(peers_.begin(), peers_.end(),
                       [](const auto& peer) { return !peer || peer->closed; });
  };
  while (!all_closed() && std::chrono::steady_clock::now() < until) {
    try {
      look(10ms);
    } catch (const std::exception&) {
      // What is wrong with a message matters to nobody any more.
    }
  }
  for (const auto& peer : peers_) {
    if (peer) close(*peer);
  }
  parcels_ = {};
}

}  // namespace weir
