// The exchange of gradients between processes whose steps are launched: what
// exec/processes/process_gradients does by messages through the host is here put on the transport's
// stream, and optimizers are ordered behind it by events. The step launcher calls it where the
// program has a REDUCE_GRAD.
//
// Each replica owns a slice of each gradient, takes all others' parts of it a piece at a time, adds
// them in the order of replicas, as the host would, and sends the sums round; under ZeRO-1 these
// stay where they are made, and the weights that are updated by them go round instead.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <vector>

#include "exec/device/backend.hpp"
#include "exec/rank/gradient_exchange.hpp"
#include "exec/rank/stage.hpp"
#include "exec/streams/stream_transport.hpp"
#include "exec/training/gradient_peers.hpp"

namespace weir {

class StreamGradients : public GradientExchange {
 public:
  struct Setup {
    const Program& program;
    const Stages& stages;  // this rank's
    GradientCopies copies;
    Rank rank;
    const Plan& plan;
    int replica = 0;
    Backend* backend = nullptr;  // with a stream
    Arena* arena = nullptr;
  };
  // Takes room for a piece of each other replica's gradients from the arena, for the whole run.
  StreamGradients(Setup setup, StreamTransport& transport);

  // A stage's gradients are whole: launches the sum over the replicas of those that are not summed
  // yet.
  void launch_sum(Stage stage);
  // All sums of the rank are launched: launches the exchange of tied weights' gradients.
  [[nodiscard]] bool exchanges() const {
    return !peers_.outgoing.empty() || !peers_.incoming.empty();
  }
  void launch_exchange();

  // Launches the sum behind the kernels that make these gradients, while the layers below go on.
  void whole(Stage stage, int first_parameter, int count) override;
  void ended(OperationId, std::uint32_t) override {}  // events say so
  void await(OperationId, std::uint32_t, StepClock&) override {
  }  // the launcher has ordered the optimizer
  [[nodiscard]] std::vector<Tensor> copies(Stage stage, std::size_t parameter) override;
  // On the device (exec/streams/stream_norm).
  [[nodiscard]] double factor() const override { return 1; }
  // Launches the exchange of weights that replicas have updated by slices; the update has ended
  // when it has.
  void updated(Stage stage) override;
  void end_step() override;
  void stop() override {}

 private:
  // Numbers of a replica's slice of a gradient, from `offset` on; where the slice is shorter, as
  // many as it has. `place`: in the room, among those of one other replica.
  struct Chunk {
    GradientKey key;
    std::int64_t offset = 0, count = 0, place = 0;
  };
  using Piece = std::vector<Chunk>;  // of one exchange

  void launch_sum(Stage stage, int first_parameter, int count);
  [[nodiscard]] std::vector<Piece> pieces_of(const std::vector<GradientKey>& keys) const;
  void launch_piece(const Piece& piece);
  // Of each tensor every replica's slice to all others.
  struct Divided {
    Tensor whole;
    std::int64_t elements = 0, element_bytes = 4;
  };
  void gather(const std::vector<Divided>& tensors);
  [[nodiscard]] Slice slice(std::int64_t elements, int replica) const;
  [[nodiscard]] Tensor part(const Chunk& chunk, int replica) const;  // empty: nothing of it
  [[nodiscard]] std::int64_t room_of(int replica) const;  // numbers before another replica's
  [[nodiscard]] Parameter& parameter(const GradientKey& key) const;
  [[nodiscard]] bool divided(const GradientKey& key) const;
  // What this replica updates by: its slice under ZeRO-1, else all.
  [[nodiscard]] Tensor gradient(const GradientKey& key) const;

  Setup setup_;
  StreamTransport& transport_;
  GradientPeers peers_;
  Tensor room_;
  std::int64_t stride_ = 0;  // numbers of one replica in the room
  std::map<GradientKey, Event>
      made_;                      // behind the last gradient of a layer, by its first parameter
  Event updated_, gathered_;      // behind a stage's update, and behind its weights' exchange
  std::set<GradientKey> summed_;  // in this step
  std::map<GradientKey, Tensor> arrived_;  // copies of this step
};

}  // namespace weir
