// The exchange of gradients between processes whose steps are launched: what
// exec/processes/process_gradients does by messages through the host is here put on the transport's
// stream, and optimizers are ordered behind it by events. The step launcher calls it where the
// program has a REDUCE_GRAD.
//
// Replicas sum each gradient slice by slice (exec/streams/slice_sums); under ZeRO-1 the sums stay
// where they are made, and the weights that are updated by them go round instead. From ZeRO-2 on
// slices have been summed micro-batch by micro-batch (exec/streams/stream_replica_group), and under
// ZeRO-3 nobody sends weights round. Devices that divide layers sum those gradients of which each
// has found a part.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "exec/device/backend.hpp"
#include "exec/rank/gradient_exchange.hpp"
#include "exec/rank/stage.hpp"
#include "exec/streams/slice_sums.hpp"
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
    const Model& model;  // undivided
    int replica = 0;
    int place = 0;               // among the plan's tp devices
    Backend* backend = nullptr;  // with a stream
    Arena* arena = nullptr;
  };
  // Takes room for a piece of each other replica's gradients, and of each other device's partial
  // ones, from the arena, for the whole run.
  StreamGradients(Setup setup, StreamTransport& transport);

  // A stage's gradients are whole: launches the sum over the replicas of those that are not summed
  // yet.
  void launch_sum(Stage stage);
  // All sums of the rank are launched, and all that makes gradients: launches, once a step, the sum
  // of those of which each device that divides the layers has found a part. What the rank launches
  // next comes behind it.
  void launch_partials();
  // Then the exchange of tied weights' gradients.
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
  void launch_sum(Stage stage, int first_parameter, int count);
  // Of devices that divide layers: each has a part of this weight's gradient.
  [[nodiscard]] bool partial_here(const Parameter& held) const;
  [[nodiscard]] Parameter& parameter(const GradientKey& key) const;
  [[nodiscard]] bool divided(const GradientKey& key) const;
  // There is no more of its gradient here than the replica's slice.
  [[nodiscard]] bool keeps_slice(const GradientKey& key) const;
  // What this replica updates by: its slice under ZeRO, else all.
  [[nodiscard]] Tensor gradient(const GradientKey& key) const;

  Setup setup_;
  StreamTransport& transport_;
  GradientPeers peers_;
  std::optional<SliceSums> replicas_, places_;  // where there are sums over them
  std::vector<GradientKey> partial_;            // whose gradients places add up
  bool partials_summed_ = false;                // in this step
  Event found_, whole_;                         // behind partial gradients, and behind their sums
  std::map<GradientKey, Event>
      made_;                      // behind the last gradient of a layer, by its first parameter
  Event updated_, gathered_;      // behind a stage's update, and behind its weights' exchange
  std::set<GradientKey> summed_;  // in this step
  std::map<GradientKey, Tensor> arrived_;  // copies of this step
};

}  // namespace weir
