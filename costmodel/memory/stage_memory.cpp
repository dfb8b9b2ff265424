// One stage's tensors, walked once for each kind of action.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/stage_memory.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "costmodel/memory/memory.hpp"
#include "costmodel/memory/training_state.hpp"

namespace weir {
namespace {

// Bytes a parameter as a stack holds them.
StateBytes software_state(const StackMemory& memory, Dtype dtype) {
  return {memory.weights > 0 ? static_cast<std::int64_t>(memory.weights) : bytes_per_element(dtype),
          static_cast<std::int64_t>(memory.gradients), static_cast<std::int64_t>(memory.optimizer)};
}

std::size_t index(MemoryKind kind) { return static_cast<std::size_t>(kind); }

// The stage's own input came from elsewhere and is an activation even when the rest is
// re-materialised.
MemoryKind input_kind(std::size_t layer, MemoryKind kept) {
  return layer == 0 ? MemoryKind::activations : kept;
}

}  // namespace

std::int64_t total_bytes(const BytesByKind& kinds) {
  return std::accumulate(kinds.begin(), kinds.end(), std::int64_t{0});
}

std::int64_t allocated_bytes(std::int64_t bytes, Allocator allocator) {
  if (allocator == Allocator::arena) return aligned_bytes(bytes);
  const std::int64_t step = bytes < std::int64_t{10} << 20 ? 512 : 2 << 20;
  return ceil_div(bytes, step) * step;
}

// Follows allocations and remembers the worst moment.
class StageMemory::Meter {
 public:
  explicit Meter(Allocator allocator) : allocator_(allocator) {}
  void allocate(MemoryKind kind, std::int64_t bytes) {
    footprint_.net[index(kind)] += allocated_bytes(bytes, allocator_);
    if (total_bytes(footprint_.net) > total_bytes(footprint_.worst))
      footprint_.worst = footprint_.net;
  }
  void release(MemoryKind kind, std::int64_t bytes) {
    footprint_.net[index(kind)] -= allocated_bytes(bytes, allocator_);
  }
  // Taken and given back at once: only the worst moment can tell.
  void touch(MemoryKind kind, std::int64_t bytes) {
    allocate(kind, bytes);
    release(kind, bytes);
  }
  [[nodiscard]] const Footprint& footprint() const { return footprint_; }

 private:
  Allocator allocator_;
  Footprint footprint_;
};

StageMemory::StageMemory(const Plan& plan, const ModelPart& part, const StagePart& stage,
                         Allocator allocator, const Stack& stack)
    : plan_(plan),
      layers_(std::span(part.layers)
                  .subspan(static_cast<std::size_t>(stage.layers.first),
                           static_cast<std::size_t>(stage.layers.last - stage.layers.first))),
      allocator_(allocator),
      software_(stack.memory),
      own_tensors_(stack.own_tensors),
      fp8_(stack.fp8),
      selective_(plan.recompute.mode == RecomputeMode::selective),
      batch_(plan.micro_batch_size),
      stage_input_(stage.input_bytes * batch_),
      stage_output_(stage.output_bytes * batch_) {}

Footprint StageMemory::of(ActionKind kind, bool remat) const {
  Meter meter(allocator_);
  const MemoryKind kept = remat ? MemoryKind::rematerialised : MemoryKind::activations;
  // A micro-batch's gradients in the number format, where they are added to the sums at its end.
  const bool backward = is_backward(kind) || kind == ActionKind::W;
  const std::int64_t beside =
      gathered_weights() + (backward ? of_parameters(software_.backward_gradients) : 0);
  meter.allocate(MemoryKind::workspace, beside);
  switch (kind) {
    case ActionKind::F:
      forward(meter, MemoryKind::activations, remat, true);
      break;
    case ActionKind::R:
      forward(meter, kept, false, false);
      break;
    case ActionKind::I:
      for (std::size_t l = layers_.size(); l-- > 0;) input_pass(meter, l, kept);
      break;
    case ActionKind::W:
      for (std::size_t l = layers_.size(); l-- > 0;) weight_pass(meter, l, kept);
      break;
    case ActionKind::B:
      for (std::size_t l = layers_.size(); l-- > 0;) {
        input_pass(meter, l, kept);
        weight_pass(meter, l, kept);
      }
      break;
    default:
      break;
  }
  meter.release(MemoryKind::workspace, beside);
  return meter.footprint();
}

Bytes mean_held(const Plan& plan, const ModelPart& part, const ScheduleShape& shape,
                const Cluster& cluster) {
  std::int64_t sum = 0;
  for (const StagePart& stage : stage_parts(part, plan.boundaries, shape))
    sum += total_bytes(
        StageMemory(plan, part, stage, cluster.device.allocator, cluster.stack).parameters());
  return Bytes(sum / shape.ranks) + memory_rules(cluster, part).process_overhead;
}

BytesByKind StageMemory::parameters() const {
  const StateBytes bytes = own_tensors_ ? state_bytes(plan_.optimizer, plan_.dtype)
                                        : software_state(software_, plan_.dtype);
  BytesByKind kinds{};
  std::set<ParameterId> held;
  for (const LayerPart& layer : layers_) {
    for (std::size_t t = 0; t < layer.weights.size(); ++t) {
      const StateShare share =
          zero_share(layer.tensors.parameters[t].elements(), bytes, plan_.zero, plan_.replicas());
      kinds[index(MemoryKind::gradients)] += round(share.gradients.count());
      if (!held.insert(layer.weights[t]).second) continue;
      kinds[index(MemoryKind::weights)] += round(share.weights.count());
      // Tensors of their own in fp32: the master weights, each moment.
      const std::int64_t tensors = bytes.optimizer / 4;
      if (tensors > 0)
        kinds[index(MemoryKind::optimizer_state)] +=
            tensors * round(ceil_div(share.optimizer.count(), tensors));
    }
  }
  const bool alone = plan_.zero > 0 || plan_.replicas() == 1;
  kinds[index(MemoryKind::gradients)] += of_parameters(alone ? 0 : software_.buckets);
  if (fp8_) kinds[index(MemoryKind::weights)] += of_parameters(software_.fp8_weights);
  return kinds;
}

std::int64_t StageMemory::of_parameters(double bytes) const {
  std::int64_t numbers = 0;
  for (const LayerPart& layer : layers_) numbers += layer.parameters;
  return round(static_cast<std::int64_t>(static_cast<double>(numbers) * bytes));
}

std::int64_t StageMemory::at_update() const { return of_parameters(software_.at_update); }

std::int64_t StageMemory::input_of(std::size_t layer) const {
  return layer == 0 ? stage_input_ : output_of(layer - 1);
}

// What skips carry past the stage's end travels with its last output and lives as long as that.
std::int64_t StageMemory::output_of(std::size_t layer) const {
  return layer + 1 == layers_.size() ? stage_output_
                                     : layers_[layer].tensors.output_bytes_per_sample * batch_;
}

// The attention core under selective re-materialisation is made again within the backward.
MemoryKind StageMemory::kind_of(const KeptTensor& tensor, MemoryKind kept) const {
  return selective_ && tensor.attention_core ? MemoryKind::rematerialised : kept;
}

// ZeRO-3 gathers a layer's weights when it needs them, and the next layer's meanwhile: two of the
// largest.
std::int64_t StageMemory::gathered_weights() const {
  if (plan_.zero < 3 || plan_.replicas() == 1) return 0;
  std::int64_t largest = 0;
  for (const LayerPart& layer : layers_) largest = std::max(largest, layer.parameters);
  return 2 * largest * bytes_per_element(plan_.dtype);
}

void StageMemory::forward(Meter& meter, MemoryKind kept, bool input_only, bool keeps_output) const {
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const LayerTensors& t = layers_[l].tensors;
    const bool last = l + 1 == layers_.size();
    meter.allocate(last ? MemoryKind::activations : kept, output_of(l));
    for (const KeptTensor& tensor : t.saved)
      meter.allocate(kind_of(tensor, kept), tensor.bytes_per_sample * batch_);
    meter.touch(MemoryKind::workspace, t.workspace_f_bytes_per_sample * batch_);
    for (const KeptTensor& tensor : t.saved) {
      const bool dropped = input_only || (selective_ && tensor.attention_core);
      if (dropped) meter.release(kind_of(tensor, kept), tensor.bytes_per_sample * batch_);
    }
    if (input_only) {
      if (l > 0) meter.release(kept, input_of(l));
    } else if (!t.saves_input) {
      meter.release(input_kind(l, kept), input_of(l));
    }
    if (last && !keeps_output) meter.release(MemoryKind::activations, output_of(l));
  }
}

void StageMemory::input_pass(Meter& meter, std::size_t l, MemoryKind kept) const {
  const LayerTensors& t = layers_[l].tensors;
  meter.allocate(MemoryKind::activations, input_of(l));
  for (const KeptTensor& tensor : t.carried)
    meter.allocate(MemoryKind::activations, tensor.bytes_per_sample * batch_);
  for (const KeptTensor& tensor : t.saved) {
    if (selective_ && tensor.attention_core)
      meter.allocate(kind_of(tensor, kept), tensor.bytes_per_sample * batch_);
  }
  meter.touch(MemoryKind::workspace, t.workspace_i_bytes_per_sample * batch_);
  for (const KeptTensor& tensor : t.saved) {
    if (tensor.until == KeptUntil::I)
      meter.release(kind_of(tensor, kept), tensor.bytes_per_sample * batch_);
  }
  if (t.saves_input && t.input_until == KeptUntil::I)
    meter.release(input_kind(l, kept), input_of(l));
  if (!t.w_needs_output_gradient) meter.release(MemoryKind::activations, output_of(l));
}

// From ZeRO-2 on, a layer's gradient is whole only until it is reduced to the replicas that own its
// parts.
void StageMemory::weight_pass(Meter& meter, std::size_t l, MemoryKind kept) const {
  const LayerTensors& t = layers_[l].tensors;
  const std::int64_t whole =
      plan_.zero >= 2 && plan_.replicas() > 1 ? 4 * layers_[l].parameters : 0;
  meter.touch(MemoryKind::workspace, t.workspace_w_bytes_per_sample * batch_ + whole);
  for (const KeptTensor& tensor : t.saved) {
    if (tensor.until == KeptUntil::W) meter.release(kept, tensor.bytes_per_sample * batch_);
  }
  for (const KeptTensor& tensor : t.carried)
    meter.release(MemoryKind::activations, tensor.bytes_per_sample * batch_);
  if (t.saves_input && t.input_until == KeptUntil::W)
    meter.release(input_kind(l, kept), input_of(l));
  if (t.w_needs_output_gradient) meter.release(MemoryKind::activations, output_of(l));
}

}  // namespace weir
