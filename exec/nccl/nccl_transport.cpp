// A communicator for each edge of a rank and for each circle it is in; unique ids travel over the
// processes' messages.
// SPDX-License-Identifier: Apache-2.0
#include "exec/nccl/nccl_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exec/cuda/cuda_stream.hpp"
#include "exec/nccl/nccl_check.hpp"
#include "exec/nccl/nccl_library.hpp"
#include "exec/processes/edge_rounds.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr int kIdTag = 4;
constexpr int kBlocks =
    32;  // of all communicators of a process: a quarter of the multiprocessors of an H100

cudaStream_t handle_of(const Stream& stream) {
  return dynamic_cast<const CudaStream&>(stream).handle();
}

NcclPart part(int peer, const Tensor& tensor) { return {peer, tensor.data, tensor.bytes}; }

}  // namespace

NcclTransport::NcclTransport(const StreamTransportRequest& request, Processes& processes,
                             GpuSharing sharing)
    : request_(request),
      sharing_gpus_(sharing),
      processes_(processes),
      gradients_(request.backend->stream()->make_side_stream()) {
  require_nccl();
  if (const auto use = request_.backend->device_use();
      sharing == GpuSharing::no && use && use->ranks > 1) {
    throw UsageError(fmt::format(
        "over NCCL each process has a GPU of its own unless they are told to share; up to {} would "
        "share one here",
        use->ranks));
  }
  // NCCL takes the device that is current when a communicator is made.
  CUDA_CHECK(cudaSetDevice(request_.backend->stream()->device()));
  connect_edges();
  for (const Among among : {Among::replicas, Among::sharers, Among::norm, Among::places})
    connect_circle(among);
}

NcclCommunicator::Wait NcclTransport::wait() const {
  return [this](const auto& ready) { processes_.wait_until(ready); };
}

bool NcclTransport::shares() const {
  const std::vector<std::int32_t>& ranks = request_.sharing_ranks;
  return std::find(ranks.begin(), ranks.end(), request_.rank.value) != ranks.end();
}

// Members of a communicator must ask for the same, so the rank with most communicators decides for
// all.
int NcclTransport::blocks_each() const {
  constexpr int kBlocksSharing = 2;  // measured: more do not find room beside another process's
  if (sharing_gpus_ == GpuSharing::yes) return kBlocksSharing;
  const int of_all = (request_.replicas > 1 ? 1 : 0) + (request_.places > 1 ? 1 : 0) +
                     (norm_members() > 1 ? 1 : 0);
  std::vector<int> communicators(static_cast<std::size_t>(request_.program.shape().ranks), of_all);
  for (const Edge& edge : request_.program.edges()) {
    ++communicators[static_cast<std::size_t>(edge.from.value)];
    ++communicators[static_cast<std::size_t>(edge.to.value)];
  }
  for (const std::int32_t rank : request_.sharing_ranks)
    ++communicators[static_cast<std::size_t>(rank)];
  return std::max(
      1, kBlocks / std::max(1, *std::max_element(communicators.begin(), communicators.end())));
}

// As exec/processes/process_grid numbers them.
int NcclTransport::process_of(std::int32_t rank, int place, int replica) const {
  return (replica * request_.places + place) * request_.program.shape().ranks + rank;
}

// The sender of an edge makes its id. There is one edge from a process to another, so ids need no
// name.
void NcclTransport::connect_edges() {
  const auto& edges = request_.program.edges();
  Indexed<EdgeId, ncclUniqueId> ids(edges.size());
  std::vector<Processes::Ticket> tickets;
  std::vector<std::pair<std::int32_t, std::int32_t>> ends;
  for (const EdgeId edge : edges.ids()) {
    ends.emplace_back(edges[edge].from.value, edges[edge].to.value);
    const auto message = std::span(&ids[edge], 1);
    if (edges[edge].from == request_.rank) {
      NCCL_CHECK(ncclGetUniqueId(&ids[edge]));
      const int to = process_of(edges[edge].to.value, request_.place, request_.replica);
      tickets.push_back(processes_.start_send(to, kIdTag, std::as_bytes(message)));
    } else if (edges[edge].to == request_.rank) {
      const int from = process_of(edges[edge].from.value, request_.place, request_.replica);
      tickets.push_back(processes_.start_receive(from, kIdTag, std::as_writable_bytes(message)));
    }
  }
  for (const Processes::Ticket message : tickets) processes_.wait(message);
  const Indexed<EdgeId, int> rounds(connection_rounds(ends));
  const int last = rounds.empty() ? -1 : *std::max_element(rounds.begin(), rounds.end());
  // Making a communicator waits for its other member: in rounds, or two processes wait in a circle.
  for (int round = 0; round <= last; ++round) {
    for (const EdgeId edge : edges.ids()) {
      const bool own = edges[edge].from == request_.rank || edges[edge].to == request_.rank;
      if (own && rounds[edge] == round) make_end(edge, ids[edge]);
    }
  }
}

void NcclTransport::make_end(EdgeId edge, const ncclUniqueId& id) {
  const bool out = request_.program.edge(edge).from == request_.rank;
  // Of the two members the sender is 0.
  const int own = out ? 0 : 1;
  End& end = edges_[edge.value];
  end.peer = 1 - own;
  end.stream = request_.backend->stream()->make_side_stream();
  end.communicator = std::make_unique<NcclCommunicator>(id, 2, own, blocks_each(), wait());
  // NCCL connects two members at their first message, which must not happen in the midst of a step.
  Tensor probe = request_.arena->allocate(1);
  if (out) {
    send(edge.value, probe);
  } else {
    receive(edge.value, probe);
  }
  await_stream(handle_of(*end.stream), wait());
  request_.arena->release(probe);
}

std::unique_ptr<NcclCommunicator> NcclTransport::join(const std::vector<int>& members) {
  const auto own = std::find(members.begin(), members.end(), processes_.index()) - members.begin();
  ncclUniqueId id;
  const auto message = std::span(&id, 1);
  // The first member makes the id, and all others learn it by message.
  if (own == 0) {
    NCCL_CHECK(ncclGetUniqueId(&id));
    std::vector<Processes::Ticket> tickets;
    for (std::size_t m = 1; m < members.size(); ++m) {
      tickets.push_back(processes_.start_send(members[m], kIdTag, std::as_bytes(message)));
    }
    for (const Processes::Ticket sent : tickets) processes_.wait(sent);
  } else {
    processes_.wait(
        processes_.start_receive(members.front(), kIdTag, std::as_writable_bytes(message)));
  }
  return std::make_unique<NcclCommunicator>(id, static_cast<int>(members.size()),
                                            static_cast<int>(own), blocks_each(), wait());
}

int NcclTransport::norm_members() const {
  return request_.norm_parts * request_.places * request_.program.shape().ranks;
}

int NcclTransport::Circle::place_of(int member) const {
  return static_cast<int>(std::ranges::find(members, member) - members.begin());
}

std::optional<NcclTransport::Circle> NcclTransport::circle_of(Among among) const {
  Circle circle;
  const auto add = [&circle](int member, int process) {
    circle.members.push_back(member);
    circle.processes.push_back(process);
  };
  if (among == Among::sharers && shares()) {
    for (const std::int32_t rank : request_.sharing_ranks)
      add(rank, process_of(rank, request_.place, request_.replica));
  } else if (among == Among::replicas) {
    for (int replica = 0; replica < request_.replicas; ++replica)
      add(replica, process_of(request_.rank.value, request_.place, replica));
  } else if (among == Among::places) {
    for (int place = 0; place < request_.places; ++place)
      add(place, process_of(request_.rank.value, place, request_.replica));
  } else if (among == Among::norm) {
    // Over all replicas where each has a part of the squares; else within one.
    const int first = request_.norm_parts > 1 ? 0 : process_of(0, 0, request_.replica);
    for (int member = 0; member < norm_members(); ++member) add(member, first + member);
  }
  // Who is alone needs no communicator.
  if (circle.members.size() < 2) return {};
  return circle;
}

// Connects all to all: at most as many as there are, and which of them meet is the plan's business.
void NcclTransport::connect_circle(Among among) {
  std::optional<Circle> found = circle_of(among);
  if (!found) return;
  Circle& circle = circles_[among] = std::move(*found);
  circle.communicator = join(circle.processes);
  const auto count = static_cast<std::int64_t>(circle.members.size());
  Tensor probe = request_.arena->allocate(1);
  Tensor heard = request_.arena->allocate(count * probe.bytes);
  std::vector<StreamTransfer> sends, receives;
  for (std::size_t i = 0; i < circle.members.size(); ++i) {
    if (circle.processes[i] == processes_.index()) continue;
    const auto place = static_cast<std::int64_t>(i) * probe.bytes;
    sends.push_back({circle.members[i], probe});
    receives.push_back({circle.members[i], {heard.data + place, probe.bytes}});
  }
  exchange(among, sends, receives);
  await_stream(handle_of(*gradients_), wait());
  request_.arena->release(probe);
  request_.arena->release(heard);
}

void NcclTransport::send(std::int32_t edge, const Tensor& message) {
  const End& end = edges_.at(edge);
  end.communicator->send(part(end.peer, message), handle_of(*end.stream));
}

void NcclTransport::receive(std::int32_t edge, const Tensor& into) {
  const End& end = edges_.at(edge);
  end.communicator->receive(part(end.peer, into), handle_of(*end.stream));
}

// On the stream that computes: what comes in is there for what is launched next.
void NcclTransport::PlaceLinks::exchange(std::span<const Part> sends,
                                         std::span<const Part> receives) {
  const Circle& circle = of_.circles_.at(Among::places);
  std::vector<NcclPart> out, in;
  for (const Part& to : sends) out.push_back(part(circle.place_of(to.place), to.tensor));
  for (const Part& from : receives) in.push_back(part(circle.place_of(from.place), from.tensor));
  circle.communicator->exchange(out, in, handle_of(*of_.request_.backend->stream()));
}

void NcclTransport::exchange(Among among, std::span<const StreamTransfer> sends,
                             std::span<const StreamTransfer> receives) {
  const Circle& circle = circles_.at(among);
  std::vector<NcclPart> out, in;
  for (const StreamTransfer& to : sends) out.push_back(part(circle.place_of(to.member), to.tensor));
  for (const StreamTransfer& from : receives)
    in.push_back(part(circle.place_of(from.member), from.tensor));
  circle.communicator->exchange(out, in, handle_of(*gradients_));
}

std::vector<NcclCommunicator*> NcclTransport::all() const {
  std::vector<NcclCommunicator*> all;
  for (const auto& [index, end] : edges_) all.push_back(end.communicator.get());
  for (const auto& [among, circle] : circles_) all.push_back(circle.communicator.get());
  return all;
}

void NcclTransport::check() {
  // Asks for errors that came since the last call; throws the first.
  for (const NcclCommunicator* communicator : all()) communicator->check();
}

void NcclTransport::abandon() noexcept {
  for (const auto& [index, end] : edges_) end.communicator->abort();
  for (const auto& [among, circle] : circles_) {
    if (circle.communicator) circle.communicator->abort();
  }
}

}  // namespace weir
