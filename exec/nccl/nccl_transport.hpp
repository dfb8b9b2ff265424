// Between the GPUs of several processes over NCCL: one communicator for each directed edge, one for
// a rank's replicas, one for the devices that divide its layers, one for the ranks of a replica
// that share weights, and one for all whose squares make up a norm. All are connected before the
// first step, edges in rounds in which every process has one edge at most. NCCL carries messages
// alone: sums are our own kernels', so that their order is (exec/streams/slice_sums,
// exec/cuda/group).
//
// The receiver launches a receive into each free slot, and a send waits on its stream until its
// receive is there: slots bound the messages without a word between the ends. Strictly first in,
// first out: what the plan's proof allows is what can run. What waits on a device holds some of its
// multiprocessors: all communicators of a process together at most 32, so all of them find room at
// once and the rest computes on. Where processes share a GPU each has two.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "exec/nccl/nccl_communicator.hpp"
#include "exec/processes/processes.hpp"
#include "exec/streams/stream_transport.hpp"

namespace weir {

// Whether several processes may stand on one GPU: let_ranks_share_gpus (exec/nccl/nccl_facts)
// was called in all of them.
enum class GpuSharing : std::uint8_t { no, yes };

class NcclTransport : public StreamTransport {
 public:
  // Collective. `request.backend` is the cuda backend. Throws RunFailed, MissingComponent where
  // there is no NCCL, and UsageError where processes would share a GPU that may not.
  NcclTransport(const StreamTransportRequest& request, Processes& processes,
                GpuSharing sharing = GpuSharing::no);

  [[nodiscard]] Stream& edge_stream(std::int32_t edge) override { return *edges_.at(edge).stream; }
  void send(std::int32_t edge, const Tensor& message) override;
  void receive(std::int32_t edge, const Tensor& into) override;
  [[nodiscard]] Stream& gradient_stream() override { return *gradients_; }
  void exchange(Among among, std::span<const StreamTransfer> sends,
                std::span<const StreamTransfer> receives) override;
  [[nodiscard]] TensorLinks* tensor_links() override {
    return request_.places > 1 ? &places_ : nullptr;
  }
  void check() override;
  void abandon() noexcept override;

 private:
  struct End {  // of an edge, on this rank
    std::unique_ptr<Stream> stream;
    std::unique_ptr<NcclCommunicator> communicator;
    int peer = 0;  // in it
  };

  class PlaceLinks : public TensorLinks {
   public:
    explicit PlaceLinks(NcclTransport& of) : of_(of) {}
    void exchange(std::span<const Part> sends, std::span<const Part> receives) override;

   private:
    NcclTransport& of_;
  };

  void connect_edges();
  void make_end(EdgeId edge, const ncclUniqueId& id);
  // Those that exchange among each other, this one with them.
  struct Circle {
    std::vector<int> processes;  // ascending
    std::vector<int> members;    // what they are called
    std::unique_ptr<NcclCommunicator> communicator;
    [[nodiscard]] int place_of(int member) const;  // in the communicator
  };

  void connect_circle(Among among);
  // Without a communicator; absent where this process has nobody to exchange with.
  [[nodiscard]] std::optional<Circle> circle_of(Among among) const;
  // A communicator of these processes, of which this is one; the first makes its id.
  [[nodiscard]] std::unique_ptr<NcclCommunicator> join(const std::vector<int>& members);
  [[nodiscard]] int process_of(std::int32_t rank, int place, int replica) const;
  [[nodiscard]] NcclCommunicator::Wait wait() const;
  [[nodiscard]] int blocks_each() const;  // of a communicator's kernel
  [[nodiscard]] bool shares() const;      // weights with other ranks
  [[nodiscard]] int norm_members() const;
  [[nodiscard]] std::vector<NcclCommunicator*> all() const;

  StreamTransportRequest request_;
  GpuSharing sharing_gpus_;
  Processes& processes_;
  std::map<std::int32_t, End> edges_;
  std::unique_ptr<Stream> gradients_;
  std::map<Among, Circle> circles_;
  PlaceLinks places_{*this};
};

}  // namespace weir
