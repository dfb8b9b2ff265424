// Between processes whose steps are launched (exec/streams/step_launcher): messages and sums are
// put on streams, as kernels are, and each waits there for its other end. Implemented on NCCL
// (exec/nccl).
//
// What two ends put on their streams must meet in one order, or both wait for ever. Messages of an
// edge follow each other on a stream of their own. Devices that divide layers exchange on the
// stream that computes, in launch order, which all processes find alike. Other exchanges share one
// stream: those of each stage's gradients in launch order, then those of gradients that devices
// have parts of, one of tied weights', one of squares, and those of each stage's weights.
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
#include "exec/device/tensor_group.hpp"
#include "plan/program/program.hpp"

namespace weir {

// Who exchanges, and what each is called: the ranks of a replica that share weights, by rank; the
// replicas of a rank, by replica; the devices that divide a rank's layers, by place; and all
// processes whose squares make up one norm, first those of replica 0 by place and rank, then those
// of the next where it has a part of its own.
enum class Among : std::uint8_t { sharers, replicas, places, norm };

// What goes to, or comes from, another of them.
struct StreamTransfer {
  int member = 0;
  Tensor tensor;
};

class StreamTransport {
 public:
  virtual ~StreamTransport() = default;

  // Edges by their index in Program::edges, with one end on this rank. `send` and `receive` launch
  // on the edge's stream; the tensors stay as they are until the stream has done it.
  [[nodiscard]] virtual Stream& edge_stream(std::int32_t edge) = 0;
  virtual void send(std::int32_t edge, const Tensor& message) = 0;
  virtual void receive(std::int32_t edge, const Tensor& into) = 0;

  // On the stream of gradients. What goes from one member to another stands in the same order at
  // both.
  [[nodiscard]] virtual Stream& gradient_stream() = 0;
  virtual void exchange(Among among, std::span<const StreamTransfer> sends,
                        std::span<const StreamTransfer> receives) = 0;

  // Null where layers are whole.
  [[nodiscard]] virtual TensorLinks* tensor_links() { return nullptr; }

  virtual void check() = 0;             // throws RunFailed when a connection broke
  virtual void abandon() noexcept = 0;  // what waits for another process ends, undone; nothing may
                                        // be launched after it
};

struct StreamTransportRequest {
  const Program& program;
  Rank rank;
  int replica = 0;
  int replicas = 1;
  int place = 0;  // among the devices that divide the rank's layers
  int places = 1;
  std::vector<std::int32_t>
      sharing_ranks;  // between which gradients are exchanged (exec/training/gradient_peers)
  Backend* backend = nullptr;  // with a stream
  Arena* arena = nullptr;
  int norm_parts = 0;  // replicas whose squares make up one norm: 1, or all; 0: nothing is clipped
};
using StreamTransportFactory =
    std::function<std::unique_ptr<StreamTransport>(const StreamTransportRequest&)>;

}  // namespace weir
