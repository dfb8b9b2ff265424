// A communicator for each edge of a rank, one for its replicas, one for tied weights; unique ids
// travel over the processes' messages.
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
  CUDA_CHECK(cudaSetDevice(request_.backend->stream()->device()));
  connect_edges();
  connect_replicas();
  connect_sharing();
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
  std::vector<int> communicators(static_cast<std::size_t>(request_.program.shape().ranks),
                                 request_.replicas > 1 ? 1 : 0);
  for (const Edge& edge : request_.program.edges()) {
    ++communicators[static_cast<std::size_t>(edge.from.value)];
    ++communicators[static_cast<std::size_t>(edge.to.value)];
  }
  for (const std::int32_t rank : request_.sharing_ranks)
    ++communicators[static_cast<std::size_t>(rank)];
  return std::max(
      1, kBlocks / std::max(1, *std::max_element(communicators.begin(), communicators.end())));
}

int NcclTransport::process_of(std::int32_t rank, int replica) const {
  return replica * request_.program.shape().ranks + rank;
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
      const int to = process_of(edges[edge].to.value, request_.replica);
      tickets.push_back(processes_.start_send(to, kIdTag, std::as_bytes(message)));
    } else if (edges[edge].to == request_.rank) {
      const int from = process_of(edges[edge].from.value, request_.replica);
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

void NcclTransport::connect_replicas() {
  if (request_.replicas == 1) return;
  std::vector<int> members;
  for (int replica = 0; replica < request_.replicas; ++replica) {
    members.push_back(process_of(request_.rank.value, replica));
  }
  replicas_ = join(members);
  Tensor probe = request_.arena->allocate(1);
  sum_over_replicas({&probe, 1});  // connects
  await_stream(handle_of(*gradients_), wait());
  request_.arena->release(probe);
}

void NcclTransport::connect_sharing() {
  if (!shares()) return;
  const std::vector<std::int32_t>& ranks = request_.sharing_ranks;
  std::vector<int> members;
  for (const std::int32_t rank : ranks) members.push_back(process_of(rank, request_.replica));
  sharing_ = join(members);
  // Connects all to all: at most as many as there are ranks, and which of them meet is the plan's
  // business.
  Tensor probe = request_.arena->allocate(1);
  Tensor heard = request_.arena->allocate(static_cast<std::int64_t>(ranks.size()) * probe.bytes);
  std::vector<NcclPart> sends, receives;
  for (std::int32_t rank : ranks) {
    if (rank == request_.rank.value) continue;
    sends.push_back(part(sharer(rank), probe));
    receives.push_back({sharer(rank), heard.data + sharer(rank) * probe.bytes, probe.bytes});
  }
  sharing_->exchange(sends, receives, handle_of(*gradients_));
  await_stream(handle_of(*gradients_), wait());
  request_.arena->release(probe);
  request_.arena->release(heard);
}

int NcclTransport::sharer(std::int32_t rank) const {
  const auto& ranks = request_.sharing_ranks;
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

void NcclTransport::send(std::int32_t edge, const Tensor& message) {
  const End& end = edges_.at(edge);
  end.communicator->send(part(end.peer, message), handle_of(*end.stream));
}

void NcclTransport::receive(std::int32_t edge, const Tensor& into) {
  const End& end = edges_.at(edge);
  end.communicator->receive(part(end.peer, into), handle_of(*end.stream));
}

void NcclTransport::sum_over_replicas(std::span<const Tensor> gradients) {
  std::vector<NcclCommunicator::Floats> arrays;
  arrays.reserve(gradients.size());
  for (const Tensor& gradient : gradients) {
    arrays.push_back(
        {gradient.floats(), gradient.bytes / static_cast<std::int64_t>(sizeof(float))});
  }
  replicas_->sum(arrays, handle_of(*gradients_));
}

void NcclTransport::exchange(std::span<const GradientTransfer> sends,
                             std::span<const GradientTransfer> receives) {
  std::vector<NcclPart> out, in;
  for (const GradientTransfer& to : sends) out.push_back(part(sharer(to.rank), to.gradient));
  for (const GradientTransfer& from : receives)
    in.push_back(part(sharer(from.rank), from.gradient));
  sharing_->exchange(out, in, handle_of(*gradients_));
}

std::vector<NcclCommunicator*> NcclTransport::all() const {
  std::vector<NcclCommunicator*> all;
  for (const auto& [index, end] : edges_) all.push_back(end.communicator.get());
  for (NcclCommunicator* communicator : {replicas_.get(), sharing_.get()}) {
    if (communicator != nullptr) all.push_back(communicator);
  }
  return all;
}

void NcclTransport::check() {
  // Asks for errors that came since the last call; throws the first.
  for (const NcclCommunicator* communicator : all()) communicator->check();
}

void NcclTransport::abandon() noexcept {
  for (const auto& [index, end] : edges_) end.communicator->abort();
  if (replicas_) replicas_->abort();
  if (sharing_) sharing_->abort();
}

}  // namespace weir
