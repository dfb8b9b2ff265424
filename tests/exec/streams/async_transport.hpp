// The transport between launched processes on the asynchronous device of the tests: as with NCCL, a
// send holds up its stream until the receive is there and the other way round, and sums and
// exchanges until all take part.
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
  struct Sum {                                 // one at a time, of the replicas of a rank
    std::map<int, std::vector<Tensor>> parts;  // by replica
    std::int64_t done = 0;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::deque<std::shared_ptr<Offer>>> offers;
  std::map<int, Sum> sums;  // by rank
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
  void sum_over_replicas(std::span<const Tensor> gradients) override {
    gradients_->launch_work(
        [this, parts = std::vector(gradients.begin(), gradients.end())] { sum(parts); });
  }
  void exchange(std::span<const GradientTransfer> sends,
                std::span<const GradientTransfer> receives) override {
    gradients_->launch_work([this, out = std::vector(sends.begin(), sends.end()),
                             in = std::vector(receives.begin(), receives.end())] {
      std::vector<std::shared_ptr<AsyncMeetings::Offer>> offered;
      offered.reserve(out.size());
      for (const GradientTransfer& t : out)
        offered.push_back(offer(between(request_.rank.value, t.rank), t.gradient));
      for (const GradientTransfer& t : in) take(between(t.rank, request_.rank.value), t.gradient);
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
  [[nodiscard]] std::string between(std::int32_t from, std::int32_t to) const {
    return std::to_string(request_.replica) + " rank " + std::to_string(from) + " to " +
           std::to_string(to);
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
  void sum(const std::vector<Tensor>& parts) {
    std::unique_lock lock(meetings_->mutex);
    AsyncMeetings::Sum& sum = meetings_->sums[request_.rank.value];
    const std::int64_t turn = sum.done;
    sum.parts[request_.replica] = parts;
    if (static_cast<int>(sum.parts.size()) == request_.replicas) {
      for (std::size_t i = 0; i < parts.size(); ++i) add(sum, i);
      sum.parts.clear();
      ++sum.done;
      meetings_->changed.notify_all();
    }
    wait(lock, [&] { return sum.done > turn; });
  }
  static void add(const AsyncMeetings::Sum& sum, std::size_t tensor) {
    const Tensor first = sum.parts.begin()->second[tensor];
    std::vector<float> total(static_cast<std::size_t>(first.bytes) / sizeof(float), 0.0F);
    for (const auto& [replica, parts] : sum.parts) {
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += parts[tensor].floats()[i];
    }
    for (const auto& [replica, parts] : sum.parts)
      std::copy(total.begin(), total.end(), parts[tensor].floats());
  }

  StreamTransportRequest request_;
  std::shared_ptr<AsyncMeetings> meetings_;
  std::atomic<bool> abandoned_{false};
  std::map<std::int32_t, std::unique_ptr<AsyncStream>> edges_;
  std::unique_ptr<AsyncStream> gradients_;
};

}  // namespace weir
