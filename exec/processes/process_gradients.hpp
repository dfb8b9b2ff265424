// The exchange between processes. When the last backward of a stage has ended, or, where the plan
// overlaps them, within it layer by layer, the replicas of its rank begin to sum its gradients:
// each owns a slice, sums all replicas' copies of it in their order, and sends the sum round.
// Before the first optimizer of the step the gradients of tied weights go to every rank that holds
// a copy, and each sums them in layer order, so all copies update alike. Where gradients are
// clipped the ranks of a replica then give each other the squares of theirs.
//
// Of devices that divide layers each sums its own part of a weight with its replicas'. Of what each
// has all of and finds a part of the gradient, one all-reduce a step makes the whole; squares of
// parts are added, in the order of places, those of whole gradients count once.
//
// Under ZeRO-1 sums stay where they are made: a replica updates its slice of each weight by them
// and sends the weights round. Its squares are of slices, added in the order of replicas. From
// ZeRO-2 on slices were summed micro-batch by micro-batch (exec/rank/stage_shards), and under
// ZeRO-3 nobody sends weights round.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "exec/device/tensor_group.hpp"
#include "exec/processes/processes.hpp"
#include "exec/processes/shared_gradients.hpp"
#include "exec/rank/gradient_exchange.hpp"
#include "exec/rank/stage.hpp"
#include "exec/training/gradient_copies.hpp"
#include "exec/training/gradient_norm.hpp"

namespace weir {

class ProcessGradients : public GradientExchange {
 public:
  struct Setup {
    const Program& program;
    const Stages& stages;   // this rank's; empty for timed waits
    GradientCopies copies;  // empty for timed waits
    GradientNorm norm;
    Rank rank;
    int replica = 0;
    int tensor = 0;                // its place among the plan's tp devices
    TensorGroup* group = nullptr;  // they; null where there is one
    const Model& model;            // undivided
    const Plan& plan;
    Backend* backend = nullptr;  // null for timed waits
    Transport::Now now;
  };
  ProcessGradients(Setup setup, Processes& processes);

  void ended(OperationId id, std::uint32_t step) override;
  void whole(Stage stage, int first_parameter, int count) override;
  // REDUCE_GRAD: from the stage's last backward until the last copy was there, and where gradients
  // are clipped their norm.
  void await(OperationId optimizer, std::uint32_t step, StepClock& clock) override;
  [[nodiscard]] std::vector<Tensor> copies(Stage stage, std::size_t parameter) override;
  [[nodiscard]] double factor() const override { return setup_.norm.factor(); }
  [[nodiscard]] std::optional<double> norm() const override { return setup_.norm.norm(); }
  void updated(Stage stage) override;
  void end_step() override;
  void stop() override {}  // those who wait for another process are stopped by Processes

 private:
  struct Reduction {  // of one parameter over the replicas
    std::vector<float>
        partials;  // this replica's slice of every other's gradient, in replica order
    std::vector<Processes::Ticket> sends, receives;
  };

  [[nodiscard]] int process_of(std::int32_t rank, int replica) const;
  [[nodiscard]] int tag(const GradientKey& key) const;
  [[nodiscard]] std::span<float> slice(std::span<float> gradient, int replica) const;
  // What this replica sums and updates: its slice under ZeRO, else all.
  [[nodiscard]] Slice updated(const GradientKey& key) const;
  [[nodiscard]] bool divided(const GradientKey& key) const;
  [[nodiscard]] Parameter& parameter(const GradientKey& key) const;
  // The gradient where the host can work on it, whole; brought there first where the device has
  // memory of its own.
  [[nodiscard]] std::span<float> on_host(const GradientKey& key);
  // Of it what this replica updates, which from ZeRO-2 on is all that it has.
  [[nodiscard]] std::span<float> updated_on_host(const GradientKey& key);
  [[nodiscard]] bool keeps_slice(const GradientKey& key) const;
  void find_noted();
  void start_reductions(std::int32_t stage, int first_parameter,
                        int count);  // but of those under way
  void start_reductions(std::int32_t stage);
  void finish_reduction(const GradientKey& key, Reduction& reduction);
  // Sends each other replica this one's slice and receives theirs into their places.
  void exchange_slices(const GradientKey& key, std::span<std::byte> values,
                       std::int64_t element_bytes);
  // The same of a weight that lies in a device's memory.
  void exchange_through_host(const GradientKey& key);
  void sum_copies();
  // Makes this rank's squares and gives each rank of the replica all of them.
  void exchange_squares();
  // Adds to the squares of the stage's weights, where `adds`, those of the other processes that
  // have parts of their gradients, all of `holders` in this order.
  void add_squares(std::int32_t stage, const std::vector<int>& holders,
                   const std::function<bool(int parameter)>& adds);
  void sum_partial_gradients();
  void exchange_notes();
  void meet();  // once a step, before its first optimizer

  Setup setup_;
  Processes& processes_;
  std::vector<OperationId> last_gradient_;  // by stage
  std::vector<std::int32_t> own_;           // stages of this rank
  std::vector<int> first_tag_;              // by stage
  int squares_tag_ = 0;                     // of stage 0, the others' behind it
  std::vector<GradientKey> partial_;        // whose gradients devices add up
  std::vector<float> summed_;               // of those, one after the other
  SharedGradients shared_;
  std::set<int> noted_;                          // processes that wait for each other, timed waits
  std::map<GradientKey, Reduction> reductions_;  // under way
  std::map<GradientKey, std::vector<float>> host_;         // of gradients in a device's memory
  std::map<GradientKey, std::vector<std::byte>> weights_;  // as the last; under way until the end
  std::vector<Processes::Ticket> sends_;
  bool met_ = false;
};

}  // namespace weir
