// Matches by the keys that files of costs have.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/layer_costs.hpp"

#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "costmodel/layers/layer_key.hpp"
#include "plan/words/error.hpp"

namespace weir {

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
      if (match.cost == nullptr && split != Split{}) match = {find(whole), true};
      if (match.cost == nullptr) {
        throw InputError("costs", "layers",
                         fmt::format("nothing is known of layer {} ({})", layer.name, whole));
      }
    }
    matches_.push_back(match);
  }
}

bool LayerCosts::like_the_last(int layer) const {
  if (layer == 0 || match(layer).cost == nullptr) return false;
  const Match &one = match(layer), &before = match(layer - 1);
  return one.cost == before.cost && one.divided == before.divided &&
         part_->layer(layer).parameters == part_->layer(layer - 1).parameters;
}

}  // namespace weir
