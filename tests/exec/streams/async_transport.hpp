// The transport between launched processes on the asynchronous device of the tests: as with NCCL, a
// send holds up its stream until the receive is there and the other way round.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "exec/streams/stream_transport.hpp"
#include "tests/exec/streams/async_stream.hpp"

namespace weir {

// What all processes of a run meet in.
struct AsyncMeetings {
  struct Offer {
    Tensor data;
    bool taken = false;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::deque<std::shared_ptr<Offer>>> offers;
};

class AsyncTransport : public StreamTransport {
 public:
  AsyncTransport(const StreamTransportRequest& request, std::shared_ptr<AsyncMeetings> meetings)
      : request_(request), meetings_(std::move(meetings)), gradients_(make_stream()) {
    for (std::size_t i = 0; i < request.program.edges().size(); ++i) {
      const Edge& edge = request.program.edge(EdgeId{i});
      if (edge.from == request.rank || edge.to == request.rank)
        edges_[static_cast<std::int32_t>(i)] = make_stream();
    }
  }

  [[nodiscard]] Stream& edge_stream(std::int32_t edge) override { return *edges_.at(edge); }
  void send(std::int32_t edge, const Tensor& message) override {
    edges_.at(edge)->launch_work([this, key = name(edge), message] { await(offer(key, message)); });
  }
  void receive(std::int32_t edge, const Tensor& into) override {
    edges_.at(edge)->launch_work([this, key = name(edge), into] { take(key, into); });
  }
  [[nodiscard]] Stream& gradient_stream() override { return *gradients_; }
  void exchange(Among among, std::span<const StreamTransfer> sends,
                std::span<const StreamTransfer> receives) override {
    const int own = own_member(among);
    gradients_->launch_work([this, own, name = name_of(among),
                             out = std::vector(sends.begin(), sends.end()),
                             in = std::vector(receives.begin(), receives.end())] {
      std::vector<std::shared_ptr<AsyncMeetings::Offer>> offered;
      offered.reserve(out.size());
      for (const StreamTransfer& t : out)
        offered.push_back(offer(between(name, own, t.member), t.tensor));
      for (const StreamTransfer& t : in) take(between(name, t.member, own), t.tensor);
      for (const auto& each : offered) await(each);
    });
  }
  void check() override {}
  void abandon() noexcept override {
    abandoned_ = true;
    meetings_->changed.notify_all();
  }

 private:
  [[nodiscard]] std::unique_ptr<AsyncStream> make_stream() const {
    auto lane = request_.backend->stream()->make_side_stream();
    return std::unique_ptr<AsyncStream>(static_cast<AsyncStream*>(lane.release()));
  }
  [[nodiscard]] std::string name(std::int32_t edge) const {
    return std::to_string(request_.replica) + " edge " + std::to_string(edge);
  }
  // Of those that exchange, what they are called and which is this one.
  [[nodiscard]] std::string name_of(Among among) const {
    const std::string replica = "replica " + std::to_string(request_.replica);
    if (among == Among::replicas) return "rank " + std::to_string(request_.rank.value);
    if (among == Among::sharers) return "sharers of " + replica;
    return "norm of " + (request_.norm_parts > 1 ? "all" : replica);
  }
  [[nodiscard]] int own_member(Among among) const {
    if (among == Among::replicas) return request_.replica;
    const int before = among == Among::norm && request_.norm_parts > 1 ? request_.replica : 0;
    return before * request_.program.shape().ranks + request_.rank.value;
  }
  [[nodiscard]] static std::string between(const std::string& name, int from, int to) {
    return name + " from " + std::to_string(from) + " to " + std::to_string(to);
  }
  // On streams. Gives up when abandoned, which it looks for in case its waker came too early.
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, Ready&& ready) {
    while (!abandoned_ && !ready()) meetings_->changed.wait_for(lock, std::chrono::milliseconds(5));
  }
  [[nodiscard]] std::shared_ptr<AsyncMeetings::Offer> offer(const std::string& key,
                                                            const Tensor& data) {
    auto made = std::make_shared<AsyncMeetings::Offer>(AsyncMeetings::Offer{data});
    const std::scoped_lock lock(meetings_->mutex);
    meetings_->offers[key].push_back(made);
    meetings_->changed.notify_all();
    return made;
  }
  void await(const std::shared_ptr<AsyncMeetings::Offer>& offered) {
    std::unique_lock lock(meetings_->mutex);
    wait(lock, [&] { return offered->taken; });
  }
  void take(const std::string& key, const Tensor& into) {
    std::unique_lock lock(meetings_->mutex);
    auto& offers = meetings_->offers[key];
    wait(lock, [&] { return !offers.empty(); });
    if (abandoned_) return;
    require(offers.front()->data.bytes == into.bytes, "a message into memory of another size");
    std::memcpy(into.data, offers.front()->data.data, static_cast<std::size_t>(into.bytes));
    offers.front()->taken = true;
    offers.pop_front();
    meetings_->changed.notify_all();
  }

  StreamTransportRequest request_;
  std::shared_ptr<AsyncMeetings> meetings_;
  std::atomic<bool> abandoned_{false};
  std::map<std::int32_t, std::unique_ptr<AsyncStream>> edges_;
  std::unique_ptr<AsyncStream> gradients_;
};

}  // namespace weir
