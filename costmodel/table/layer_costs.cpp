// Matches by the keys that files of costs have.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/layer_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "costmodel/layers/layer_key.hpp"
#include "plan/job/recompute.hpp"
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
bool owns_its_weights(const ModelPart& part, int layer) {
  for (int t = 0; t < static_cast<int>(part.layer(layer).tensors.parameters.size()); ++t)
    if (part.weight({layer, t}).layer != layer) return false;
  return true;
}

}  // namespace

LayerCosts::LayerCosts(const Plan& plan, const Model& model, const Costs& costs,
                       std::shared_ptr<const ModelPart> part)
    : model_(model), part_(std::move(part)), costs_(costs), alike_(alike_layers(model.layers)) {
  match_all(plan);
  compare_neighbours();
  for (const Costs& kind : costs.other_kinds)
    other_kinds_.push_back(LayerCosts(plan, model, kind, part_));
}

void LayerCosts::match_all(const Plan& plan) {
  std::unordered_map<std::string, const LayerCost*> known;  // looked up only, never walked
  for (const LayerCost& cost : costs_.layers) known.emplace(cost.key, &cost);
  const auto find = [&](const std::string& key) {
    const auto found = known.find(key);
    return found == known.end() ? nullptr : found->second;
  };
  const Split split = plan.split();
  for (const int first : alike_.first) {
    const Layer& layer = model_.layers[static_cast<std::size_t>(first)];
    Match match;
    if (!std::holds_alternative<TimedShape>(layer.shape)) {
      match.cost = find(layer_key(layer, plan.seq_length, plan.dtype, split));
      const std::string whole = layer_key(layer, plan.seq_length, plan.dtype);
      // Times of a divided layer are better; those of the whole one can be divided.
      if (match.cost == nullptr && split != Split{}) match = {find(whole), true};
      if (match.cost == nullptr) {
        throw InputError(costs_.file, "layers",
                         fmt::format("nothing is known of layer {} ({})", layer.name, whole));
      }
    }
    matches_.push_back(match);
  }
}

// Each with the layer before: models repeat their blocks.
void LayerCosts::compare_neighbours() {
  std::map<std::pair<int, int>, bool> compared;  // kinds of parts, each pair once
  const auto hold_alike = [&](int a, int b) {
    const std::pair kinds{part_->kind_of(a), part_->kind_of(b)};
    if (kinds.first == kinds.second) return true;
    const auto [known, fresh] = compared.try_emplace(kinds);
    if (fresh) known->second = holds_alike(part_->layer(a), part_->layer(b));
    return known->second;
  };
  const auto take_alike = [&](int a, int b) {
    const Match &one = match(a), &other = match(b);
    return one.cost != nullptr && one.cost == other.cost && one.divided == other.divided &&
           part_->layer(a).parameters == part_->layer(b).parameters;
  };
  bool owned_before = false;
  for (int l = 0; l < static_cast<int>(alike_.kind.size()); ++l) {
    const bool owned = owns_its_weights(*part_, l);
    like_the_last_.push_back(l > 0 && take_alike(l, l - 1));
    held_alike_.push_back(l > 0 && owned && owned_before && hold_alike(l, l - 1));
    owned_before = owned;
    const auto again = [&](int layer) {
      return std::pair(part_->layer(layer).block, part_->layer(layer).backward);
    };
    if (!like_the_last(l) || again(l) != again(l - 1)) runs_.push_back({l, l});
    runs_.back().last = l + 1;
  }
}

std::vector<LayerRange> LayerCosts::runs(const Recompute& recompute) const {
  if (recompute.layers.empty()) return runs_;
  std::vector<LayerRange> parted;
  for (const LayerRange& run : runs_) {
    for (int l = run.first; l < run.last; ++l) {
      const auto again = [&](int layer) { return rebuilds(recompute, part_->layer(layer), layer); };
      if (l == run.first || again(l) != again(l - 1)) parted.push_back({l, l});
      parted.back().last = l + 1;
    }
  }
  return parted;
}

std::shared_ptr<const ModelPart> LayerCosts::as_kept(const ResolvedPlan& resolved,
                                                     const Stack& stack) {
  const Plan& plan = resolved.plan;
  Model model = resolved.model;
  model.layers = resolved.layers();
  return std::make_shared<const ModelPart>(
      stack_part(model, plan.seq_length, plan.dtype, plan.split(), stack));
}

}  // namespace weir
