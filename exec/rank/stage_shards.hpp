// What a stage does beside its passes where replicas divide its gradients (ZeRO-2) and its weights
// (ZeRO-3). Of each layer the replica keeps its slices; a layer's weights are gathered for the
// passes that read them, the next layer's meanwhile, and its gradients are whole only until their
// sums are scattered, which goes on beside the next layer's pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exec/device/arena.hpp"
#include "exec/training/replica_group.hpp"
#include "plan/job/plan.hpp"
#include "plan/model/tensor_list.hpp"

namespace weir {

class StageShards {
 public:
  // Null: nobody is there, as in a rehearsal; all is done but sending.
  explicit StageShards(const Plan& plan, ReplicaGroup* group);

  // A layer's parameters, in order: what the replica keeps of each.
  struct Kept {
    Tensor weight, gradient;
    std::int64_t elements = 0;
    std::int64_t padding = 0;  // of what is whole
    bool divided = true;       // else both are whole, and every replica's
  };
  void add_layer(const LayerTensors& tensors, std::vector<Kept> parameters);

  [[nodiscard]] bool divides_gradients() const { return gradients_; }
  [[nodiscard]] bool divides_weights() const { return weights_; }

  // Around an action that reads weights, of these layers in this order; the first is gathered at
  // once. In between `weights` is asked for them in that order, once or several times each.
  [[nodiscard]] std::int64_t reading_bytes() const;
  void begin_reading(Tensor room, std::vector<std::size_t> layers);
  [[nodiscard]] std::span<const Tensor> weights(std::size_t layer);
  [[nodiscard]] Tensor end_reading();  // the room

  // Around a pass that makes gradients: the layer's, in `room`, each to be overwritten; and the
  // replica's own sums of running statistics, which are added to as without ZeRO. `sum`
  // starts to add them to what the replica keeps, or in the first of a step to overwrite that;
  // `finish` gives the room back, empty where none was started.
  [[nodiscard]] std::int64_t gradient_bytes(std::size_t layer) const {
    return layers_[layer].gradient_bytes;
  }
  // Of a layer's gradients, the numbers that one replica sums: the most of any layer.
  [[nodiscard]] std::int64_t most_summed() const;
  [[nodiscard]] std::span<const Tensor> begin_gradients(std::size_t layer, Tensor room);
  void sum(ReplicaGroup::Into kept);
  [[nodiscard]] Tensor finish();

 private:
  struct Layer {
    std::vector<Kept> parameters;
    std::int64_t weight_bytes = 0, gradient_bytes = 0;  // whole
  };
  struct Window {  // one layer's weights, whole
    std::optional<std::size_t> layer;
    std::vector<Tensor> tensors;
  };
  [[nodiscard]] Window* holding(std::size_t layer);
  void gather(std::size_t layer, Window& into);

  ReplicaGroup* group_;
  int replicas_;
  bool gradients_, weights_;
  std::int64_t element_bytes_;
  std::vector<Layer> layers_;

  Tensor reading_room_;
  std::vector<std::size_t> order_;
  std::size_t at_ = 0;  // of `order_`: what is read now
  std::optional<std::size_t> gathering_;
  std::array<Window, 2> windows_;

  Tensor gradient_room_;
  std::size_t gradient_layer_ = 0;
  std::vector<Tensor> whole_gradients_;
};

}  // namespace weir
