// Between processes whose steps are launched (exec/streams/step_launcher): messages and sums are
// put on streams, as kernels are, and each waits there for its other end. Implemented on NCCL
// (exec/nccl).
//
// What two ends put on their streams must meet in one order, or both wait for ever. Messages of an
// edge follow each other on a stream of their own. Sums and exchanges share one stream: the sum of
// each stage in launch order, which all processes find alike, then one exchange.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/device/arena.hpp"
#include "exec/device/backend.hpp"
#include "exec/device/stream.hpp"
#include "plan/program/program.hpp"

namespace weir {

// A gradient that goes to, or comes from, a rank of the same replica.
struct GradientTransfer {
  std::int32_t rank = 0;
  Tensor gradient;
};

class StreamTransport {
 public:
  virtual ~StreamTransport() = default;

  // Edges by their index in Program::edges, with one end on this rank. `send` and `receive` launch
  // on the edge's stream; the tensors stay as they are until the stream has done it.
  [[nodiscard]] virtual Stream& edge_stream(std::int32_t edge) = 0;
  virtual void send(std::int32_t edge, const Tensor& message) = 0;
  virtual void receive(std::int32_t edge, const Tensor& into) = 0;

  // On the stream of gradients: fp32, summed in place over the ranks of this number in all
  // replicas, to the same bits in each; the padding of tensors too.
  [[nodiscard]] virtual Stream& gradient_stream() = 0;
  virtual void sum_over_replicas(std::span<const Tensor> gradients) = 0;
  // Between ranks of a replica. What goes from one rank to another stands in the same order at
  // both.
  virtual void exchange(std::span<const GradientTransfer> sends,
                        std::span<const GradientTransfer> receives) = 0;

  virtual void check() = 0;             // throws RunFailed when a connection broke
  virtual void abandon() noexcept = 0;  // what waits for another process ends, undone; nothing may
                                        // be launched after it
};

struct StreamTransportRequest {
  const Program& program;
  Rank rank;
  int replica = 0;
  int replicas = 1;
  std::vector<std::int32_t>
      sharing_ranks;  // between which gradients are exchanged (exec/training/gradient_peers)
  Backend* backend = nullptr;  // with a stream
  Arena* arena = nullptr;
};
using StreamTransportFactory =
    std::function<std::unique_ptr<StreamTransport>(const StreamTransportRequest&)>;

}  // namespace weir
