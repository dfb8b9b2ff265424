// Matches by the keys that files of costs have.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/layer_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "costmodel/layers/layer_key.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

bool equal(const KeptTensor& a, const KeptTensor& b) {
  return std::tie(a.bytes_per_sample, a.until, a.rebuilt_by) ==
         std::tie(b.bytes_per_sample, b.until, b.rebuilt_by);
}

bool equal(const ParameterTensor& a, const ParameterTensor& b) {
  return a.shape == b.shape && a.expert == b.expert && a.frozen == b.frozen &&
         a.running.has_value() == b.running.has_value();
}

template <class Tensor>
bool all_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) { return equal(x, y); });
}

// In all that a device allocates for a layer; names and initial values apart.
bool holds_alike(const LayerPart& a, const LayerPart& b) {
  const auto numbers = [](const LayerPart& part) {
    const LayerTensors& t = part.tensors;
    return std::tie(part.parameters, part.expert_parameters, part.trained_parameters,
                    part.trained_expert_parameters, part.block, t.output_bytes_per_sample,
                    t.saves_input, t.input_until, t.w_needs_output_gradient,
                    t.workspace_f_bytes_per_sample, t.workspace_i_bytes_per_sample,
                    t.workspace_w_bytes_per_sample);
  };
  return numbers(a) == numbers(b) && all_equal(a.tensors.parameters, b.tensors.parameters) &&
         all_equal(a.tensors.saved, b.tensors.saved) &&
         all_equal(a.tensors.carried, b.tensors.carried);
}

// Every weight is first used here.
bool owns_its_weights(const LayerPart& part, int layer) {
  return std::ranges::all_of(part.weights, [&](ParameterId id) { return id.layer == layer; });
}

}  // namespace

LayerCosts::LayerCosts(const Plan& plan, const Model& model, const Costs& costs,
                       std::shared_ptr<const ModelPart> part)
    : model_(model), part_(std::move(part)), costs_(costs) {
  std::unordered_map<std::string, const LayerCost*> known;  // looked up only, never walked
  for (const LayerCost& cost : costs.layers) known.emplace(cost.key, &cost);
  const auto find = [&](const std::string& key) {
    const auto found = known.find(key);
    return found == known.end() ? nullptr : found->second;
  };
  const Split split = plan.split();
  for (const Layer& layer : model.layers) {
    Match match;
    if (!std::holds_alternative<TimedShape>(layer.shape)) {
      match.cost = find(layer_key(layer, plan.seq_length, plan.dtype, split));
      const std::string whole = layer_key(layer, plan.seq_length, plan.dtype);
      // Times of a divided layer are better; those of the whole one can be divided.
      if (match.cost == nullptr && split != Split{}) match = {find(whole), true};
      if (match.cost == nullptr) {
        throw InputError(costs.file, "layers",
                         fmt::format("nothing is known of layer {} ({})", layer.name, whole));
      }
    }
    matches_.push_back(match);
  }
  // Compared with the layer before: models repeat their blocks.
  for (int l = 0; l < static_cast<int>(matches_.size()); ++l) {
    held_alike_.push_back(l > 0 && holds_alike(part_->layer(l), part_->layer(l - 1)) &&
                          owns_its_weights(part_->layer(l), l) &&
                          owns_its_weights(part_->layer(l - 1), l - 1));
  }
  for (const Costs& kind : costs.other_kinds)
    other_kinds_.push_back(LayerCosts(plan, model, kind, part_));
}

std::shared_ptr<const ModelPart> LayerCosts::as_kept(const ResolvedPlan& resolved,
                                                     const Stack& stack) {
  const Plan& plan = resolved.plan;
  Model model = resolved.model;
  model.layers = resolved.layers();
  return std::make_shared<const ModelPart>(
      stack_part(model, plan.seq_length, plan.dtype, plan.split(), stack));
}

bool LayerCosts::like_the_last(int layer) const {
  if (layer == 0 || match(layer).cost == nullptr) return false;
  const Match &one = match(layer), &before = match(layer - 1);
  return one.cost == before.cost && one.divided == before.divided &&
         part_->layer(layer).parameters == part_->layer(layer - 1).parameters;
}

}  // namespace weir
