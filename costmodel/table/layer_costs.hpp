// Costs matched with the layers of one model on one device of a split, once: from here on a layer's
// cost is found by its index, and no key is written again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "costmodel/layers/layer_time.hpp"
#include "costmodel/table/costs.hpp"
#include "plan/job/resolve.hpp"
#include "plan/job/stack_part.hpp"
#include "plan/model/alike_layers.hpp"
#include "plan/model/model.hpp"
#include "plan/model/model_part.hpp"

namespace weir {

class LayerCosts {
 public:
  // For all plans that have `plan`'s sequence length, number format and split. Model and costs must
  // outlive it. Throws InputError when a layer of the model is not in the costs.
  LayerCosts(const Plan& plan, const Model& model, const Costs& costs, const Stack& stack = {})
      : LayerCosts(plan, model, costs,
                   std::make_shared<const ModelPart>(
                       stack_part(model, plan.seq_length, plan.dtype, plan.split(), stack))) {}
  // For this one. Where its skips go directly, layers are known as they are with skips that are
  // relayed, and held as its stages have them.
  LayerCosts(const ResolvedPlan& resolved, const Costs& costs, const Stack& stack = {})
      : LayerCosts(resolved.plan, resolved.model, costs,
                   stack.own_tensors ? resolved.part : as_kept(resolved, stack)) {}

  struct Match {
    const LayerCost* cost = nullptr;  // none of a timed layer, which says its times itself
    bool divided = false;  // known whole only: its time is divided by tp and cp, with a warning
  };
  [[nodiscard]] const Match& match(int layer) const {
    return matches_[static_cast<std::size_t>(alike_.kind_of(layer))];
  }
  // Whether the layer is of the kind of the one before it, and as large: what is known of one is
  // known of both.
  [[nodiscard]] bool like_the_last(int layer) const {
    return like_the_last_[static_cast<std::size_t>(layer)];
  }
  // Whether it also holds what that one holds, tensor by tensor, and shares no weight.
  [[nodiscard]] bool held_like_the_last(int layer) const {
    return held_alike_[static_cast<std::size_t>(layer)];
  }
  // The model's layers in runs of those that are like the one before and rebuilt, or not, as it is.
  [[nodiscard]] std::vector<LayerRange> runs(const Recompute& recompute) const;
  [[nodiscard]] const Model& model() const { return model_; }
  // As the stack keeps it.
  [[nodiscard]] const std::shared_ptr<const ModelPart>& part() const { return part_; }
  [[nodiscard]] const Costs& costs() const { return costs_; }
  // Of the cluster's nodes of one kind, by Cluster::kind. Precondition: the costs have it.
  [[nodiscard]] const LayerCosts& of_kind(int kind) const {
    return kind == 0 ? *this : other_kinds_.at(static_cast<std::size_t>(kind) - 1);
  }

 private:
  LayerCosts(const Plan& plan, const Model& model, const Costs& costs,
             std::shared_ptr<const ModelPart> part);
  void match_all(const Plan& plan);
  void compare_neighbours();
  [[nodiscard]] static std::shared_ptr<const ModelPart> as_kept(const ResolvedPlan& resolved,
                                                                const Stack& stack);

  const Model& model_;
  std::shared_ptr<const ModelPart> part_;
  const Costs& costs_;
  AlikeLayers alike_;                             // of the model
  std::vector<Match> matches_;                    // by kind of alike layers
  std::vector<bool> like_the_last_, held_alike_;  // by layer
  std::vector<LayerRange> runs_;  // of layers that are like the one before, and blocks as it is
  std::vector<LayerCosts> other_kinds_;
};

}  // namespace weir
