// SPDX-License-Identifier: Apache-2.0
#include "exec/nccl/nccl_transport.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "exec/edge_rounds.hpp"
#include "exec/nccl/nccl_check.hpp"

namespace weir {
namespace {

constexpr int kIdTag = 4;

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

bool reached(const Event& event) {
  const cudaError_t status = cudaEventQuery(event.get());
  if (status == cudaErrorNotReady) return false;
  CUDA_CHECK(status);
  return true;
}

}  // namespace

NcclTransport::NcclTransport(const TransportRequest& request, Processes& processes)
    : request_(request), processes_(processes) {
  if (request_.backend == nullptr || request_.backend->in_host_memory()) {
    throw UsageError("--transport nccl moves messages between GPUs; it needs --backend cuda");
  }
  clock_stream_ = make_stream();
  base_ = make_event(cudaEventDefault);
  connect(processes);
}

// The sender of an edge makes its id. There is one edge from a process to another, so ids need no name.
void NcclTransport::connect(Processes& processes) {
  const auto& edges = request_.program.edges;
  std::vector<ncclUniqueId> ids(edges.size());
  std::vector<Processes::Ticket> letters;
  std::vector<std::pair<std::int32_t, std::int32_t>> ends;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    ends.emplace_back(edges[i].from.value, edges[i].to.value);
    const auto letter = std::span(&ids[i], 1);
    if (edges[i].from == request_.rank) {
      NCCL_CHECK(ncclGetUniqueId(&ids[i]));
      letters.push_back(
          processes.start_send(request_.first_process + edges[i].to.value, kIdTag, std::as_bytes(letter)));
    } else if (edges[i].to == request_.rank) {
      letters.push_back(processes.start_receive(request_.first_process + edges[i].from.value, kIdTag,
                                                std::as_writable_bytes(letter)));
    }
  }
  for (const Processes::Ticket letter : letters) processes.wait(letter);
  const std::vector<int> rounds = connection_rounds(ends);
  const int last = rounds.empty() ? -1 : *std::max_element(rounds.begin(), rounds.end());
  for (int round = 0; round <= last; ++round) {
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const bool own = edges[i].from == request_.rank || edges[i].to == request_.rank;
      if (own && rounds[i] == round) make_end(static_cast<std::int32_t>(i), ids[i]);
    }
  }
}

void NcclTransport::make_end(std::int32_t index, const ncclUniqueId& id) {
  const Edge& edge = request_.program.edges[at(index)];
  const bool out = edge.from == request_.rank;
  const Lane& lane = request_.program.lanes[at(out ? edge.send_lane : edge.receive_lane)];
  End made;
  made.edge = std::make_unique<NcclEdge>(id, 2, out ? 0 : 1, out ? 1 : 0,
                                         [this](const auto& ready) { processes_.wait_until(ready); });
  made.first = lane.first;
  made.count = lane.last - lane.first;
  made.messages.resize(at(made.count));
  made.posted_ns.resize(at(made.count));
  made.seen_ns.resize(at(made.count));
  made.consumed.resize(at(made.count));
  for (std::int32_t message = 0; message < made.count; ++message) {
    made.began.push_back(make_event(cudaEventDefault));
    made.ended.push_back(make_event(cudaEventDefault));
  }
  // NCCL connects two ranks at their first message, which must not happen in the midst of a step.
  Tensor probe = request_.arena->allocate(1);
  if (out) {
    made.edge->send(probe.data, 1);
  } else {
    made.edge->receive(probe.data, 1);
  }
  made.edge->settle();
  made.edge->await_stream();
  request_.arena->release(probe);
  (out ? outgoing_ : incoming_)[index] = std::move(made);
}

void NcclTransport::begin_step(StepClock& clock) {
  clock_ = &clock;
  const std::int64_t before = request_.now();
  CUDA_CHECK(cudaEventRecord(base_.get(), clock_stream_.get()));
  CUDA_CHECK(cudaEventSynchronize(base_.get()));
  base_ns_ = before + (request_.now() - before) / 2;
  for (auto* ends : {&outgoing_, &incoming_}) {
    for (auto& [index, end] : *ends) {
      std::fill(end.consumed.begin(), end.consumed.end(), 0);
      end.next = 0;
      end.released = 0;
    }
  }
  for (auto& [index, end] : incoming_) post_receives(end);
}

void NcclTransport::post_receives(End& end) {
  const std::int32_t slots = request_.program.slots;
  while (end.next < end.count && (slots == 0 || end.next < slots || end.consumed[at(end.next - slots)] != 0)) {
    const std::size_t message = at(end.next++);
    Tensor& slot = end.messages[message];
    slot = request_.arena->allocate(request_.message_bytes[at(end.first) + message]);
    request_.backend->finish();  // the slot's memory is there for every stream
    end.posted_ns[message] = request_.now();
    CUDA_CHECK(cudaEventRecord(end.began[message].get(), end.edge->stream()));
    end.edge->receive(slot.data, slot.bytes);
    end.edge->settle();
    CUDA_CHECK(cudaEventRecord(end.ended[message].get(), end.edge->stream()));
  }
}

void NcclTransport::send(std::int32_t edge, std::int32_t index, Tensor message) {
  End& end = outgoing_.at(edge);
  if (index != end.next) throw RunFailed("a message stands before its turn on its edge; NCCL would wait for ever");
  end.messages[at(index)] = message;
  end.posted_ns[at(index)] = request_.now();
  CUDA_CHECK(cudaEventRecord(end.began[at(index)].get(), end.edge->stream()));
  end.edge->send(message.data, message.bytes);
  end.edge->settle();
  CUDA_CHECK(cudaEventRecord(end.ended[at(index)].get(), end.edge->stream()));
  ++end.next;
  for (auto& [other, sent] : outgoing_) release_sent(sent);
}

void NcclTransport::release_sent(End& end) {
  while (end.released < end.next && reached(end.ended[at(end.released)])) {
    end.seen_ns[at(end.released)] = request_.now();
    request_.arena->release(end.messages[at(end.released++)]);
  }
}

Tensor NcclTransport::receive(std::int32_t edge, std::int32_t index) {
  End& end = incoming_.at(edge);
  // With too few slots for the order of consumers it would never be posted; the plan's proof excludes that.
  if (index >= end.next) throw RunFailed("a message is awaited for which no slot is free; NCCL would wait for ever");
  processes_.wait_until([&] { return reached(end.ended[at(index)]); });
  end.seen_ns[at(index)] = request_.now();
  return std::exchange(end.messages[at(index)], {});
}

void NcclTransport::consumed(std::int32_t edge, std::int32_t index) {
  End& end = incoming_.at(edge);
  end.consumed[at(index)] = 1;
  post_receives(end);
}

void NcclTransport::end_step() {
  for (auto& [index, end] : outgoing_) {
    processes_.wait_until([&] {
      release_sent(end);
      return end.released == end.count;
    });
    read_times(end);
  }
  for (auto& [index, end] : incoming_) read_times(end);
}

std::int64_t NcclTransport::time_of(const Event& event) const {
  float milliseconds = 0;
  CUDA_CHECK(cudaEventElapsedTime(&milliseconds, base_.get(), event.get()));
  return base_ns_ + std::llround(static_cast<double>(milliseconds) * 1e6);
}

void NcclTransport::read_times(const End& end) {
  for (std::int32_t message = 0; message < end.count; ++message) {
    const std::size_t m = at(message), operation = at(end.first + message);
    const std::int64_t start = std::min(std::max(time_of(end.began[m]), end.posted_ns[m]), end.seen_ns[m]);
    clock_->start_ns[operation] = start;
    clock_->end_ns[operation] = std::clamp(time_of(end.ended[m]), start, end.seen_ns[m]);
  }
}

}  // namespace weir
