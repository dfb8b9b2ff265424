// The exchange of gradients between processes whose steps are launched: what
// exec/processes/process_gradients does by messages through the host is here put on the transport's
// stream, and optimizers are ordered behind it by events. The step launcher calls it where the
// program has a REDUCE_GRAD.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <vector>

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
    int replicas = 1;
    Arena* arena = nullptr;
    Stream* stream = nullptr;  // of the kernels that make gradients
  };
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
  // Where launches do not wait nothing is clipped (exec/training/trainable).
  [[nodiscard]] double factor() const override { return 1; }
  void end_step() override;
  void stop() override {}

 private:
  void launch_sum(Stage stage, int first_parameter, int count);
  [[nodiscard]] const Tensor& gradient(const GradientKey& key) const;

  Setup setup_;
  StreamTransport& transport_;
  GradientPeers peers_;
  std::map<GradientKey, Event>
      made_;                      // behind the last gradient of a layer, by its first parameter
  std::set<GradientKey> summed_;  // in this step
  std::map<GradientKey, Tensor> arrived_;  // copies of this step
};

}  // namespace weir
