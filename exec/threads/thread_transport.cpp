// Messages handed over under their edge's lock.
// SPDX-License-Identifier: Apache-2.0
#include "exec/threads/thread_transport.hpp"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

namespace weir {

ThreadTransport::ThreadTransport(const Program& program, std::vector<Arena*> arenas, Now now,
                                 bool spin)
    : program_(program),
      arenas_(std::move(arenas)),
      now_(now),
      spin_(spin),
      clocks_(program.shape().ranks, nullptr) {
  for (const Edge& edge : program.edges()) {
    const Lane& lane = program.lane(edge.send_lane);
    auto made = std::make_unique<Fifo>();
    made->messages.resize(lane.last - lane.first);
    made->produced.resize(made->messages.size());
    made->consumed.resize(made->messages.size());
    edges_.push_back(std::move(made));
  }
}

void ThreadTransport::begin_step(StepClock& clock) {
  std::ranges::fill(clocks_, &clock);
  for (auto& edge : edges_) {
    std::fill(edge->produced.begin(), edge->produced.end(), 0);
    std::fill(edge->consumed.begin(), edge->consumed.end(), 0);
    edge->next = 0;
    edge->delivered.store(0);
  }
}

void ThreadTransport::send(std::int32_t edge, std::int32_t index, Tensor message) {
  Fifo& e = *edges_[edge];
  // The sender's and the receiver's thread both move messages on: the lock is what they share.
  const std::scoped_lock lock(e.mutex);
  e.messages[index] = message;
  e.produced[index] = 1;
  move_on(e, edge);
}

void ThreadTransport::consumed(std::int32_t edge, std::int32_t index) {
  Fifo& e = *edges_[edge];
  // As in `send`; the slot may be the one a held message waits for.
  const std::scoped_lock lock(e.mutex);
  e.consumed[index] = 1;
  move_on(e, edge);
}

void ThreadTransport::move_on(Fifo& e, std::int32_t edge) {
  const Edge& ends = program_.edge(EdgeId{edge});
  const OperationId send = program_.lane(ends.send_lane).first;
  const OperationId receive = program_.lane(ends.receive_lane).first;
  const auto count = static_cast<std::int32_t>(e.messages.size());
  const std::int32_t before = e.next;
  // In order: message i needs the slot of message i - slots, and one that is held holds those
  // behind.
  while (e.next < count && e.produced[e.next] != 0 &&
         (program_.slots() == 0 || e.next < program_.slots() ||
          e.consumed[e.next - program_.slots()] != 0)) {
    // The time is taken while the bytes are in neither account: both ranks go on meanwhile, and at
    // no moment has either more than these times say.
    if (!arenas_.empty()) arenas_[ends.from.position()]->give(e.messages[e.next]);
    const std::int64_t now = now_();
    for (const auto& [rank, id] :
         {std::pair(ends.from, send + e.next), std::pair(ends.to, receive + e.next)}) {
      StepClock& clock = *clocks_[rank.position()];
      clock.start_ns[id.position()] = now;
      clock.end_ns[id.position()] = now;
    }
    if (!arenas_.empty()) arenas_[ends.to.position()]->take_over(e.messages[e.next]);
    ++e.next;
  }
  if (e.next == before || stopped_.load()) return;
  // Release: who reads this number with acquire sees the messages below it without the lock.
  e.delivered.store(e.next, std::memory_order_release);
  if (!spin_) e.delivered.notify_all();
}

Tensor ThreadTransport::receive(std::int32_t edge, std::int32_t index) {
  Fifo& e = *edges_[edge];
  for (int round = 0;; ++round) {
    // Before `stopped_`, which is set before the last store: a woken waiter finds one of the two.
    const std::int32_t delivered = e.delivered.load(std::memory_order_acquire);
    if (stopped_.load(std::memory_order_relaxed)) throw Stopped{};
    if (delivered > index) return std::exchange(e.messages[index], {});
    if (!spin_) {
      e.delivered.wait(delivered, std::memory_order_acquire);
    } else if (round > 20'000) {
      std::this_thread::yield();  // somebody else may need the core
    } else {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }
}

void ThreadTransport::stop() {
  stopped_.store(true);
  for (auto& edge : edges_) {
    // The lock keeps `move_on` from storing a smaller number after this one.
    const std::scoped_lock lock(edge->mutex);
    edge->delivered.store(std::numeric_limits<std::int32_t>::max());
    edge->delivered.notify_all();
  }
}

}  // namespace weir
