// The edges of a plan that end at this process, each a FIFO of messages over MPI.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/mpi/mpi_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "plan/words/error.hpp"

namespace weir {

MpiTransport::MpiTransport(const TransportRequest& request, ProcessGroup& processes)
    : request_(request),
      processes_(processes),
      message_arena_(request.backend != nullptr && request.backend->in_host_memory()
                         ? static_cast<BlockSource&>(*request.backend)
                         : blocks_) {
  for (std::size_t i = 0; i < request_.program.edges().size(); ++i) {
    const Edge& edge = request_.program.edge(EdgeId{i});
    const bool out = edge.from == request_.rank;
    if (!out && edge.to != request_.rank) continue;
    const Lane& lane = request_.program.lane(out ? edge.send_lane : edge.receive_lane);
    Fifo made;
    made.peer = request_.first_process + (out ? edge.to : edge.from).value;
    made.first = lane.first;
    made.count = lane.last - lane.first;
    made.messages.resize(made.count);
    made.produced.resize(made.count);
    made.freed.resize(made.count);
    for (std::int32_t index = 0; index < made.count; ++index) made.credits.push_back(index);
    (out ? outgoing_ : incoming_)[static_cast<std::int32_t>(i)] = std::move(made);
  }
  processes_.on_poll([this] { progress(); });
}

MpiTransport::~MpiTransport() { processes_.on_poll({}); }

void MpiTransport::begin_step(StepClock& clock) {
  const std::scoped_lock lock(processes_.lock());  // `progress` runs on the progress thread, too
  clock_ = &clock;
  for (auto* edges : {&outgoing_, &incoming_}) {
    for (auto& [index, edge] : *edges) {
      assert(edge.under_way.empty() && "the step before has ended");
      std::fill(edge.produced.begin(), edge.produced.end(), 0);
      std::fill(edge.freed.begin(), edge.freed.end(), 0);
      edge.next = 0;
      edge.done = 0;
    }
  }
}

void MpiTransport::send(std::int32_t edge, std::int32_t index, Tensor message) {
  Tensor posted = message;
  if (staged()) {
    {
      // For the allocation alone: the copy from the device takes long, and the progress thread
      // needs the lock meanwhile.
      const std::scoped_lock lock(processes_.lock());
      posted = message_arena_.allocate(message.bytes);
    }
    request_.backend->to_host(posted.data, message, message.bytes);
    request_.arena->release(message);
  }
  const std::scoped_lock lock(processes_.lock());  // a credit may come in just now
  Fifo& e = outgoing_.at(edge);
  e.messages[index] = posted;
  e.produced[index] = 1;
  send_ready(edge, e);
}

// Message i needs the slot of message i - slots; 0 slots: any number. Messages of an edge leave in
// order, so one without a slot holds up those behind it.
void MpiTransport::send_ready(std::int32_t edge, Fifo& e) {
  const std::int32_t slots = request_.program.slots();
  while (e.next < e.count && e.produced[e.next] != 0 &&
         (slots == 0 || e.next < slots || e.freed[e.next - slots] != 0)) {
    const Tensor& message = e.messages[e.next];
    clock_->start_ns[(e.first + e.next).position()] = request_.now();
    const std::span<const std::byte> bytes(message.data, static_cast<std::size_t>(message.bytes));
    e.under_way.push_back(
        {processes_.bytes().start_send(e.peer, Channel::edges, edge, bytes), e.next++});
  }
}

// Credits first: they let messages go in the same round.
void MpiTransport::progress() {
  take_credits();
  take_messages();
  finish_receives();
  finish_sends();
}

void MpiTransport::take_credits() {
  while (const auto there = processes_.bytes().arrival(Channel::credits)) {
    Credit& credit = credits_coming_.emplace_back(Credit{there->tag, 0, 0});
    credit.request = processes_.bytes().take(std::as_writable_bytes(std::span(&credit.index, 1)));
  }
  // In order of arrival: one that is not done yet holds up those behind it for a moment only.
  while (!credits_coming_.empty() && processes_.bytes().done(credits_coming_.front().request)) {
    const Credit credit = credits_coming_.front();
    credits_coming_.pop_front();
    Fifo& e = outgoing_.at(credit.edge);
    e.freed[credit.index] = 1;
    send_ready(credit.edge, e);
  }
}

void MpiTransport::take_messages() {
  while (const auto there = processes_.bytes().arrival(Channel::edges)) {
    Fifo& e = incoming_.at(there->tag);
    assert(e.next < e.count && "no more messages than the program has");
    const auto bytes = static_cast<std::int64_t>(there->bytes);
    if (!request_.message_bytes.empty() &&
        bytes != request_.message_bytes[(e.first + e.next).position()]) {
      throw RunFailed(fmt::format("a message of {} bytes came where the plan has one of {}", bytes,
                                  request_.message_bytes[(e.first + e.next).position()]));
    }
    Tensor& tensor = e.messages[e.next];  // the tag is the edge; its messages come in order
    tensor = message_arena_.allocate(bytes);
    if (request_.arena != nullptr && !staged()) message_arena_.hand_over(tensor, *request_.arena);
    e.under_way.push_back({processes_.bytes().take({tensor.data, there->bytes}), e.next++});
  }
}

void MpiTransport::finish_receives() {
  for (auto& [index, e] : incoming_) {
    while (!e.under_way.empty() && processes_.bytes().done(e.under_way.front().request)) {
      const OperationId id = e.first + e.under_way.front().index;
      clock_->start_ns[id.position()] = 0;  // for the sender to say
      clock_->end_ns[id.position()] = request_.now();
      e.under_way.pop_front();
      ++e.done;
    }
  }
}

void MpiTransport::finish_sends() {
  for (auto& [index, e] : outgoing_) {
    while (!e.under_way.empty() && processes_.bytes().done(e.under_way.front().request)) {
      const std::int32_t sent = e.under_way.front().index;
      clock_->end_ns[(e.first + sent).position()] = request_.now();
      release_sent(e.messages[sent]);
      e.under_way.pop_front();
      ++e.done;
    }
  }
  while (!credits_under_way_.empty() && processes_.bytes().done(credits_under_way_.front())) {
    credits_under_way_.pop_front();
  }
}

void MpiTransport::release_sent(Tensor& message) {
  if (request_.arena != nullptr && !staged()) request_.arena->hand_over(message, message_arena_);
  message_arena_.release(message);
}

Tensor MpiTransport::receive(std::int32_t edge, std::int32_t index) {
  Tensor arrived;
  processes_.wait_until([&] {  // called with the lock held
    Fifo& e = incoming_.at(edge);
    if (e.done <= index) return false;
    arrived = std::exchange(e.messages[index], {});
    return true;
  });
  if (!staged()) return arrived;
  // Outside the lock, as in `send`: the copy to the device takes long.
  const Tensor there = request_.arena->allocate(arrived.bytes);
  request_.backend->to_device(there, arrived.data, arrived.bytes);
  const std::scoped_lock lock(processes_.lock());  // the arena is the progress thread's, too
  message_arena_.release(arrived);
  return there;
}

// The last slots are nobody's: every credit is awaited, and none is left over for the next step.
void MpiTransport::consumed(std::int32_t edge, std::int32_t index) {
  Fifo& e = incoming_.at(edge);
  if (request_.program.slots() == 0 || index + request_.program.slots() >= e.count) return;
  const std::scoped_lock lock(processes_.lock());  // MPI is called by one thread at a time
  const std::span<const std::int32_t> credit(&e.credits[index], 1);
  credits_under_way_.push_back(
      processes_.bytes().start_send(e.peer, Channel::credits, edge, std::as_bytes(credit)));
}

void MpiTransport::end_step() {
  processes_.wait_until([this] {
    return credits_under_way_.empty() &&
           std::all_of(outgoing_.begin(), outgoing_.end(),
                       [](const auto& e) { return e.second.done == e.second.count; });
  });
}

}  // namespace weir
