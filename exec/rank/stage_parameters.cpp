// A stage's parameters: what of each the replica has, and what it begins with.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "exec/rank/stage.hpp"
#include "exec/training/stored.hpp"

namespace weir {
namespace {

// Some at a time: what is converted is then still in the caches when it is copied, and memory of a
// whole tensor is not asked for and given back.
void put(Backend& backend, const Tensor& to, std::span<const float> values, Dtype dtype) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 18;
  std::byte* at = to.data;
  for (std::size_t first = 0; first < values.size(); first += kAtOnce) {
    const std::vector<std::byte> bytes =
        stored(values.subspan(first, std::min(kAtOnce, values.size() - first)), dtype);
    const auto size = static_cast<std::int64_t>(bytes.size());
    backend.to_device({at, size}, bytes.data(), size);
    at += size;
  }
}

}  // namespace

const Tensor& Parameter::part(ParameterPart which) const {
  switch (which) {
    case ParameterPart::gradient:
      return gradient;
    case ParameterPart::state1:
      return state1;
    case ParameterPart::state2:
      return state2;
    case ParameterPart::values:
      break;
  }
  return master ? master : weight;
}

void StageWorker::add_parameters(int layer, const StateSource& state) {
  const LayerPart& part = part_.layer(layer);
  first_parameter_.push_back(static_cast<int>(parameters_.size()));
  std::vector<Tensor> weights, gradients;
  std::vector<StageShards::Kept> kept;
  for (std::size_t i = 0; i < part.tensors.parameters.size(); ++i) {
    Parameter made = new_parameter(layer, static_cast<int>(i), state);
    const ParameterTensor& its = made.description;
    weights.push_back(keeps_weight_slice(plan_, its) ? Tensor{} : made.weight);
    gradients.push_back(keeps_gradient_slice(plan_, its) ? Tensor{} : made.gradient);
    kept.push_back({made.weight, made.gradient, its.elements(), its.padding,
                    keeps_gradient_slice(plan_, its)});
    parameters_.push_back(std::move(made));
  }
  weights_.push_back(std::move(weights));
  gradients_.push_back(std::move(gradients));
  shards_.add_layer(part.tensors, std::move(kept));
}

// A weight used twice on one stage (tied embedding and head) exists once; each use has a gradient
// of its own.
Parameter StageWorker::new_parameter(int layer, int tensor, const StateSource& state) {
  const LayerPart& part = part_.layer(layer);
  const ParameterId weight = part_.weight({layer, tensor});
  Parameter made;
  made.description = part.tensors.parameters[static_cast<std::size_t>(tensor)];
  made.id = {layer, tensor};
  made.first_use = weight;
  const std::int64_t elements = made.description.elements(), padding = made.description.padding;
  // With optimizer state divided among replicas, this one updates its slice alone.
  const int sharers = dividing_replicas(plan_, made.description, ParameterPart::state1);
  made.updated = replica_slice(elements, sharers > 1 ? peers_.replica : 0, sharers);
  const std::int64_t kept = made.updated.count;
  made.gradient =
      take((keeps_gradient_slice(plan_, made.description) ? kept : elements + padding) * 4, layer,
           made.description.name + "'s gradient");
  backend_.put_zeros(made.gradient);  // stays so without micro-batches
  // Copies of one weight on one stage, such as a tied head, are found by their first use.
  for (const Parameter& other : parameters_) {
    if (other.first_use != weight) continue;
    made.weight = other.weight;
    made.master = other.master;
    return made;
  }
  const std::int64_t each = bytes_per_element(plan_.dtype);
  const bool sliced = keeps_weight_slice(plan_, made.description);
  made.weight = take((sliced ? kept : elements + padding) * each, layer, made.description.name);
  if (padding > 0 && !sliced)  // read by products, and written by nobody
    backend_.put_zeros({made.weight.data + elements * each, padding * each});
  const std::string state_of = made.description.name + "'s optimizer state";
  // Below fp32 the optimizer works on a master copy; in fp32 the weight is its own.
  if (each < 4) made.master = take(kept * 4, layer, state_of);
  const int states = made.description.running ? 0 : state_numbers(plan_.optimizer);
  if (states > 0) made.state1 = take(kept * 4, layer, state_of);
  if (states > 1) made.state2 = take(kept * 4, layer, state_of);
  put_state(made, state(weight, part_.parameter(weight)));
  return made;
}

void StageWorker::put_state(const Parameter& parameter, const ParameterState& state) {
  // A rehearsal has no values.
  const auto updated = [&](const std::vector<float>& values) {
    const Slice& kept = parameter.updated;
    return std::span(values).subspan(static_cast<std::size_t>(kept.first),
                                     static_cast<std::size_t>(kept.count));
  };
  const bool sliced = keeps_weight_slice(plan_, parameter.description) && !state.values.empty();
  put(backend_, parameter.weight, sliced ? updated(state.values) : std::span(state.values),
      plan_.dtype);
  const auto begin = [&](const Tensor& tensor, const std::vector<float>& values) {
    if (!tensor) return;
    if (values.empty()) return backend_.put_zeros(tensor);
    put(backend_, tensor, updated(values), Dtype::fp32);
  };
  begin(parameter.master, state.values);
  begin(parameter.state1, state.state1);
  begin(parameter.state2, state.state2);
}

}  // namespace weir
