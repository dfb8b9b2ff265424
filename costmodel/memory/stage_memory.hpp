// What one stage holds and what each of its actions does to memory: plan/model/layer_tensors'
// contract walked once for each kind of action, on one device of the plan's tp x cp x dp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "costmodel/memory/footprint.hpp"
#include "costmodel/memory/memory_kind.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/job/stack.hpp"
#include "plan/model/model_part.hpp"
#include "plan/program/program.hpp"

namespace weir {

class StageMemory {
 public:
  // Plan and part must outlive it.
  StageMemory(const Plan& plan, const ModelPart& part, const StagePart& stage, Allocator allocator,
              const Stack& stack = {});

  // `remat`: the micro-batch is (to be) re-materialised, by the stage or by the layer.
  [[nodiscard]] Footprint of(ActionKind kind, bool remat) const;
  // Weights once per stage and tie, gradients per use, optimizer state; what ZeRO leaves of them.
  [[nodiscard]] BytesByKind parameters() const;
  // The gradients among them that are not there before the step's first backward.
  [[nodiscard]] std::int64_t gradients_to_come() const;
  // Of one device's gathers and casts at an update that replicas share: as large as its weights, in
  // one piece, so that a caching allocator keeps them apart from all else.
  [[nodiscard]] std::int64_t at_update() const;
  [[nodiscard]] std::int64_t output_bytes() const { return round(stage_output_); }
  [[nodiscard]] std::int64_t input_bytes() const { return round(stage_input_); }
  // Of one that it sends or receives.
  [[nodiscard]] std::int64_t message_bytes(const Action& message) const {
    return round(stage_.message_bytes(message) * batch_);
  }

 private:
  // Of the stage's.
  [[nodiscard]] const LayerPart& layer(std::size_t index) const {
    return part_.layer(first_ + static_cast<int>(index));
  }
  [[nodiscard]] std::int64_t round(std::int64_t bytes) const {
    return allocated_bytes(bytes, allocator_);
  }
  [[nodiscard]] std::int64_t input_of(std::size_t layer) const;
  [[nodiscard]] std::int64_t output_of(std::size_t layer) const;
  [[nodiscard]] bool dropped(std::size_t layer, const KeptTensor& tensor, bool remat) const;
  [[nodiscard]] MemoryKind saved_kind(std::size_t layer, const KeptTensor& tensor,
                                      bool remat) const;
  [[nodiscard]] bool keeps_input(std::size_t layer, bool remat) const;
  [[nodiscard]] MemoryKind input_kind(std::size_t layer, bool remat) const;
  // Of one layer's parameters. `held_already`: whether the stage holds the weight of a tied one.
  [[nodiscard]] BytesByKind of_layer(std::size_t l,
                                     const std::function<bool(ParameterId)>& held_already) const;
  [[nodiscard]] std::int64_t gathered_weights(ActionKind kind) const;
  [[nodiscard]] std::int64_t on_device(std::int64_t state) const;
  // Of what the layer keeps, what waits in the host's memory.
  [[nodiscard]] std::int64_t with_the_host(std::size_t l, bool remat) const;
  // What has to be back for its backward; of layers that are rebuilt together all for the last.
  [[nodiscard]] std::int64_t from_the_host(std::size_t l, bool remat) const;
  // A layer's pass between what comes back for it and for the next one.
  template <class Pass>
  void beside_copies(FootprintMeter& meter, std::size_t l, bool remat, const Pass& pass) const;
  // The stage's layers in parts: one layer, or some that do the same to memory, since both
  // neighbours of each are of its kind, and rebuilt, or not, as it is.
  [[nodiscard]] std::vector<LayerRange> walks() const;
  // Each layer of the stage by `walk(meter, layer)`, upwards or downwards; those alike once.
  template <class Walk>
  void upwards(FootprintMeter& meter, const Walk& walk) const;
  template <class Walk>
  void downwards(FootprintMeter& meter, const Walk& walk) const;
  template <class Walk>
  void walk_alike(FootprintMeter& meter, int layer, int count, const Walk& walk) const;
  void join_row(FootprintMeter& meter, const Action& neighbour) const;
  void part_row(FootprintMeter& meter, const Action& neighbour) const;
  void forward(FootprintMeter& meter, std::size_t l, bool remat) const;
  void rematerialise(FootprintMeter& meter, std::size_t l) const;
  [[nodiscard]] bool inside_chunk(std::size_t layer, bool remat) const;
  [[nodiscard]] bool chunk_ends(std::size_t layer, bool remat) const;  // with this layer
  void rebuild_chunk(FootprintMeter& meter, std::size_t last) const;
  void input_pass(FootprintMeter& meter, std::size_t l, bool remat) const;
  void weight_pass(FootprintMeter& meter, std::size_t l, bool remat) const;
  [[nodiscard]] std::int64_t of_parameters(double bytes) const;  // so many for each
  [[nodiscard]] std::int64_t of_trained(double bytes) const;     // ... that is trained
  [[nodiscard]] std::int64_t of_products(double bytes) const;    // ... that products may have in 8

  const Plan& plan_;
  const ModelPart& part_;
  int first_;           // of the layers, in the model
  std::size_t layers_;  // so many
  Allocator allocator_;
  StackMemory software_;
  bool own_tensors_, fp8_, stays_gathered_, copies_travel_;
  RecomputeMode mode_;
  std::vector<bool> rebuilt_;              // by layer: in mode full
  std::vector<std::size_t> chunk_starts_;  // and the first layer of those it is rebuilt with
  std::vector<LayerRange> alike_;          // by walks(), from the stage's first
  std::int64_t batch_;
  StagePart stage_;
  std::int64_t stage_input_, stage_output_;
};

// What each rank holds from step to step, of which no re-materialisation and no offload of
// activations takes anything.
[[nodiscard]] std::vector<Bytes> held_between_steps(const Plan& plan, const ModelPart& part,
                                                    const ScheduleShape& shape,
                                                    const Cluster& cluster);

// Their mean: however layers are divided among ranks, the fullest has no less.
[[nodiscard]] Bytes mean_held(const Plan& plan, const ModelPart& part, const ScheduleShape& shape,
                              const Cluster& cluster);

}  // namespace weir
