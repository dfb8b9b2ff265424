// Two windows for weights, one for gradients.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/stage_shards.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "exec/training/replica_share.hpp"

namespace weir {
namespace {

// The tensors of a layer one after the other, as plan/model/tensor_list's whole_bytes counts them.
std::vector<Tensor> beside_each_other(std::span<const StageShards::Kept> parameters,
                                      std::int64_t element_bytes, std::byte* at) {
  std::vector<Tensor> tensors;
  for (const StageShards::Kept& parameter : parameters) {
    const std::int64_t bytes =
        aligned_bytes((parameter.elements + parameter.padding) * element_bytes);
    tensors.push_back({at, bytes});
    at += bytes;
  }
  return tensors;
}

}  // namespace

StageShards::StageShards(const Plan& plan, ReplicaGroup* group)
    : group_(group),
      replicas_(plan.dp),
      gradients_(plan.zero >= 2 && plan.dp > 1),
      weights_(plan.zero >= 3 && plan.dp > 1),
      element_bytes_(bytes_per_element(plan.dtype)) {}

void StageShards::add_layer(const LayerTensors& tensors, std::vector<Kept> parameters) {
  layers_.push_back(
      {std::move(parameters), whole_bytes(tensors, element_bytes_), whole_bytes(tensors, 4)});
}

std::int64_t StageShards::reading_bytes() const {
  if (!weights_) return 0;
  std::int64_t largest = 0;
  for (const Layer& layer : layers_) largest = std::max(largest, layer.weight_bytes);
  return largest * static_cast<std::int64_t>(std::min<std::size_t>(layers_.size(), 2));
}

StageShards::Window* StageShards::holding(std::size_t layer) {
  const auto found = std::ranges::find(windows_, layer, &Window::layer);
  return found == windows_.end() ? nullptr : &*found;
}

void StageShards::begin_reading(Tensor room, std::vector<std::size_t> layers) {
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  reading_room_ = room;
  order_ = std::move(layers);
  at_ = 0;
  if (order_.empty()) return;
  gather(order_.front(), windows_[0]);
}

void StageShards::gather(std::size_t layer, Window& into) {
  const std::vector<Kept>& kept = layers_[layer].parameters;
  std::byte* first = reading_room_.data + (&into == &windows_[1] ? reading_room_.bytes / 2 : 0);
  into.layer = layer;
  into.tensors = beside_each_other(kept, element_bytes_, first);
  std::vector<DividedTensor> divided;
  for (std::size_t p = 0; p < kept.size(); ++p) {
    if (kept[p].divided) {
      divided.push_back({.own = kept[p].weight,
                         .whole = into.tensors[p],
                         .elements = kept[p].elements,
                         .element_bytes = element_bytes_,
                         .padding = kept[p].padding});
    } else {
      into.tensors[p] = kept[p].weight;
    }
  }
  gathering_ = layer;
  if (group_ != nullptr) group_->start_gather(divided);
}

std::span<const Tensor> StageShards::weights(std::size_t layer) {
  if (order_[at_] != layer) ++at_;
  assert(order_[at_] == layer && "weights are read in the order that was told");
  Window& window = *holding(layer);
  if (gathering_ == layer) {
    if (group_ != nullptr) group_->finish_gather();
    gathering_.reset();
  }
  // The next layer's meanwhile, in the place of the one before this; it may be there still.
  const std::size_t next = at_ + 1;
  if (next < order_.size() && holding(order_[next]) == nullptr)
    gather(order_[next], windows_[&window == &windows_[0] ? 1 : 0]);
  return window.tensors;
}

Tensor StageShards::end_reading() {
  assert(!gathering_ && "all that was gathered was read");
  for (Window& window : windows_) window = {};
  order_.clear();
  return std::exchange(reading_room_, {});
}

std::span<const Tensor> StageShards::begin_gradients(std::size_t layer, Tensor room) {
  gradient_layer_ = layer;
  gradient_room_ = room;
  const std::vector<Kept>& parameters = layers_[layer].parameters;
  whole_gradients_ = beside_each_other(parameters, 4, room.data);
  // Running statistics are every replica's own: W adds them up in their place, and they are summed
  // over replicas once a step.
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (!parameters[p].divided) whole_gradients_[p] = parameters[p].gradient;
  }
  return whole_gradients_;
}

std::int64_t StageShards::most_summed() const {
  std::int64_t most = 0;
  for (const Layer& layer : layers_) {
    std::int64_t numbers = 0;
    for (const Kept& each : layer.parameters)
      numbers += each.divided ? replica_slice(each.elements, 0, replicas_).count : 0;
    most = std::max(most, numbers);
  }
  return most;
}

void StageShards::sum(ReplicaGroup::Into kept) {
  if (group_ == nullptr) return;
  std::vector<DividedTensor> divided;
  const std::vector<Kept>& parameters = layers_[gradient_layer_].parameters;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const Kept& each = parameters[p];
    if (!each.divided) continue;
    divided.push_back(
        {.own = each.gradient, .whole = whole_gradients_[p], .elements = each.elements});
  }
  group_->start_sum(divided, kept);
}

Tensor StageShards::finish() {
  if (gradient_room_ && group_ != nullptr) group_->finish_sum();
  return std::exchange(gradient_room_, {});
}

}  // namespace weir
