// SPDX-License-Identifier: Apache-2.0
#include "exec/mpi/mpi_transport.hpp"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "exec/mpi/mpi_check.hpp"

namespace weir {
namespace {

constexpr int kLine = 64;

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

}  // namespace

void* MpiTransport::HostBlocks::allocate(std::int64_t bytes) {
  return ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{kLine});
}
void MpiTransport::HostBlocks::release(void* block, std::int64_t) noexcept {
  ::operator delete (block, std::align_val_t{kLine});
}

MpiTransport::MpiTransport(const TransportRequest& request, MpiProcesses& processes)
    : request_(request),
      processes_(processes),
      postbox_(request.backend != nullptr && request.backend->in_host_memory()
                   ? static_cast<BlockSource&>(*request.backend)
                   : blocks_) {
  for (std::size_t i = 0; i < request_.program.edges.size(); ++i) {
    const weir::Edge& edge = request_.program.edges[i];
    const bool out = edge.from == request_.rank;
    if (!out && edge.to != request_.rank) continue;
    const Lane& lane = request_.program.lanes[at(out ? edge.send_lane : edge.receive_lane)];
    Edge made;
    made.peer = request_.first_process + (out ? edge.to : edge.from).value;
    made.first = lane.first;
    made.count = lane.last - lane.first;
    made.messages.resize(at(made.count));
    made.produced.resize(at(made.count));
    made.freed.resize(at(made.count));
    for (std::int32_t index = 0; index < made.count; ++index) made.credits.push_back(index);
    (out ? outgoing_ : incoming_)[static_cast<std::int32_t>(i)] = std::move(made);
  }
  {
    const std::scoped_lock lock(processes_.lock());
    WEIR_MPI_CHECK(MPI_Type_contiguous(kLine, MPI_BYTE, &line_));
    WEIR_MPI_CHECK(MPI_Type_commit(&line_));
  }
  processes_.on_poll([this] { progress(); });
}

MpiTransport::~MpiTransport() {
  processes_.on_poll({});
  const std::scoped_lock lock(processes_.lock());
  int finalized = 0;
  MPI_Finalized(&finalized);  // a run that failed has left MPI already
  if (finalized == 0) MPI_Type_free(&line_);
}

void MpiTransport::begin_step(StepClock& clock) {
  const std::scoped_lock lock(processes_.lock());
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
      const std::scoped_lock lock(processes_.lock());
      posted = postbox_.allocate(message.bytes);
    }
    request_.backend->to_host(posted.data, message, message.bytes);
    request_.arena->release(message);
  }
  const std::scoped_lock lock(processes_.lock());
  Edge& e = outgoing_.at(edge);
  e.messages[at(index)] = posted;
  e.produced[at(index)] = 1;
  send_ready(edge, e);
}

// Message i needs the slot of message i - slots.
void MpiTransport::send_ready(std::int32_t edge, Edge& e) {
  const std::int32_t slots = request_.program.slots;
  while (e.next < e.count && e.produced[at(e.next)] != 0 &&
         (slots == 0 || e.next < slots || e.freed[at(e.next - slots)] != 0)) {
    const Tensor& message = e.messages[at(e.next)];
    clock_->start_ns[at(e.first + e.next)] = request_.now();
    e.under_way.push_back({MPI_REQUEST_NULL, e.next});
    WEIR_MPI_CHECK(MPI_Isend(message.data, static_cast<int>(message.bytes / kLine), line_, e.peer, edge,
                             processes_.edges(), &e.under_way.back().request));
    ++e.next;
  }
}

void MpiTransport::progress() {
  take_credits();
  take_messages();
  finish_receives();
  finish_sends();
}

void MpiTransport::take_credits() {
  for (;;) {
    int there = 0;
    MPI_Status status;
    WEIR_MPI_CHECK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, processes_.credits(), &there, &status));
    if (there == 0) break;
    std::int32_t index = 0;
    WEIR_MPI_CHECK(
        MPI_Recv(&index, 1, MPI_INT32_T, status.MPI_SOURCE, status.MPI_TAG, processes_.credits(), MPI_STATUS_IGNORE));
    Edge& e = outgoing_.at(status.MPI_TAG);
    e.freed[at(index)] = 1;
    send_ready(status.MPI_TAG, e);
  }
}

void MpiTransport::take_messages() {
  for (;;) {
    int there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    WEIR_MPI_CHECK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, processes_.edges(), &there, &message, &status));
    if (there == 0) return;
    Edge& e = incoming_.at(status.MPI_TAG);
    assert(e.next < e.count && "no more messages than the program has");
    int lines = 0;
    WEIR_MPI_CHECK(MPI_Get_count(&status, line_, &lines));
    if (!request_.message_bytes.empty() &&
        std::int64_t{lines} * kLine != request_.message_bytes[at(e.first + e.next)]) {
      throw RunFailed(fmt::format("a message of {} bytes came where the plan has one of {}",
                                  std::int64_t{lines} * kLine, request_.message_bytes[at(e.first + e.next)]));
    }
    Tensor& tensor = e.messages[at(e.next)];
    tensor = postbox_.allocate(std::int64_t{lines} * kLine);
    if (request_.arena != nullptr && !staged()) postbox_.hand_over(tensor, *request_.arena);
    e.under_way.push_back({MPI_REQUEST_NULL, e.next++});
    WEIR_MPI_CHECK(MPI_Imrecv(tensor.data, lines, line_, &message, &e.under_way.back().request));
  }
}

void MpiTransport::finish_receives() {
  for (auto& [index, e] : incoming_) {
    while (!e.under_way.empty()) {
      int done = 0;
      WEIR_MPI_CHECK(MPI_Test(&e.under_way.front().request, &done, MPI_STATUS_IGNORE));
      if (done == 0) break;
      const OperationId id = e.first + e.under_way.front().index;
      clock_->start_ns[at(id)] = 0;  // for the sender to say
      clock_->end_ns[at(id)] = request_.now();
      e.under_way.pop_front();
      ++e.done;
    }
  }
}

void MpiTransport::finish_sends() {
  for (auto& [index, e] : outgoing_) {
    while (!e.under_way.empty()) {
      int done = 0;
      WEIR_MPI_CHECK(MPI_Test(&e.under_way.front().request, &done, MPI_STATUS_IGNORE));
      if (done == 0) break;
      const std::int32_t sent = e.under_way.front().index;
      clock_->end_ns[at(e.first + sent)] = request_.now();
      post(e.messages[at(sent)]);
      e.under_way.pop_front();
      ++e.done;
    }
  }
  while (!credits_under_way_.empty()) {
    int done = 0;
    WEIR_MPI_CHECK(MPI_Test(&credits_under_way_.front(), &done, MPI_STATUS_IGNORE));
    if (done == 0) return;
    credits_under_way_.pop_front();
  }
}

void MpiTransport::post(Tensor& message) {
  if (request_.arena != nullptr && !staged()) request_.arena->hand_over(message, postbox_);
  postbox_.release(message);
}

Tensor MpiTransport::receive(std::int32_t edge, std::int32_t index) {
  Tensor arrived;
  processes_.wait_until([&] {
    Edge& e = incoming_.at(edge);
    if (e.done <= index) return false;
    arrived = std::exchange(e.messages[at(index)], {});
    return true;
  });
  if (!staged()) return arrived;
  const Tensor there = request_.arena->allocate(arrived.bytes);
  request_.backend->to_device(there, arrived.data, arrived.bytes);
  const std::scoped_lock lock(processes_.lock());
  postbox_.release(arrived);
  return there;
}

// The last slots are nobody's: every credit is awaited, and none is left over for the next step.
void MpiTransport::consumed(std::int32_t edge, std::int32_t index) {
  Edge& e = incoming_.at(edge);
  if (request_.program.slots == 0 || index + request_.program.slots >= e.count) return;
  const std::scoped_lock lock(processes_.lock());
  credits_under_way_.emplace_back();
  WEIR_MPI_CHECK(
      MPI_Isend(&e.credits[at(index)], 1, MPI_INT32_T, e.peer, edge, processes_.credits(), &credits_under_way_.back()));
}

void MpiTransport::end_step() {
  processes_.wait_until([this] {
    return credits_under_way_.empty() && std::all_of(outgoing_.begin(), outgoing_.end(),
                                                     [](const auto& e) { return e.second.done == e.second.count; });
  });
}

}  // namespace weir
