// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/stage_memory.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "costmodel/layers/layer_math.hpp"
#include "costmodel/memory/training_state.hpp"

namespace weir {
namespace {

std::size_t index(MemoryKind kind) { return static_cast<std::size_t>(kind); }
std::int64_t elements(const LayerTensors& layer) {
  std::int64_t sum = 0;
  for (const ParameterTensor& parameter : layer.parameters) sum += parameter.elements();
  return sum;
}

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
  return (bytes + step - 1) / step * step;
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

StageMemory::StageMemory(const LoadedPlan& loaded, Stage stage, Allocator allocator)
    : plan_(loaded.plan),
      allocator_(allocator),
      selective_(loaded.plan.recompute.mode == RecomputeMode::selective),
      batch_(loaded.plan.micro_batch_size) {
  const auto& layers = loaded.model.layers;
  const Split split = plan_.split();
  const LayerRange range = layers_of_stage(plan_, static_cast<int>(layers.size()), stage);
  for (int l = range.first; l < range.last; ++l) {
    tensors_.push_back(
        layer_tensors(layers[static_cast<std::size_t>(l)], plan_.seq_length, plan_.dtype, split));
  }
  // What skips carry past a boundary travels with the layer's output and lives as long as that.
  const auto crossing = [&](int layer) {
    return crossing_bytes(loaded.model, layer, plan_.seq_length, plan_.dtype, split).count();
  };
  tensors_.back().output_bytes_per_sample = crossing(range.last - 1);
  if (range.first > 0) stage_input_ = crossing(range.first - 1) * batch_;
}

Footprint StageMemory::of(ActionKind kind, bool remat) const {
  Meter meter(allocator_);
  const MemoryKind kept = remat ? MemoryKind::rematerialised : MemoryKind::activations;
  meter.allocate(MemoryKind::workspace, gathered_weights());
  switch (kind) {
    case ActionKind::F:
      forward(meter, MemoryKind::activations, remat, true);
      break;
    case ActionKind::R:
      forward(meter, kept, false, false);
      break;
    case ActionKind::I:
      for (std::size_t l = tensors_.size(); l-- > 0;) input_pass(meter, l, kept);
      break;
    case ActionKind::W:
      for (std::size_t l = tensors_.size(); l-- > 0;) weight_pass(meter, l, kept);
      break;
    case ActionKind::B:
      for (std::size_t l = tensors_.size(); l-- > 0;) {
        input_pass(meter, l, kept);
        weight_pass(meter, l, kept);
      }
      break;
    default:
      break;
  }
  meter.release(MemoryKind::workspace, gathered_weights());
  return meter.footprint();
}

Bytes mean_held(const LoadedPlan& loaded, const Device& device) {
  std::int64_t sum = 0;
  for (std::int32_t stage = 0; stage < loaded.schedule.shape.total_stages(); ++stage) {
    sum += total_bytes(StageMemory(loaded, Stage{stage}, device.allocator).parameters());
  }
  return Bytes(sum / loaded.schedule.shape.ranks) + device.process_overhead;
}

BytesByKind StageMemory::parameters() const {
  const StateBytes bytes = state_bytes(plan_.optimizer, plan_.dtype);
  BytesByKind kinds{};
  std::set<std::string> ties;
  for (const LayerTensors& layer : tensors_) {
    for (const ParameterTensor& parameter : layer.parameters) {
      const StateShare share =
          zero_share(parameter.elements(), bytes, plan_.zero, plan_.replicas());
      kinds[index(MemoryKind::gradients)] += round(share.gradients.count());
      if (!parameter.tied_with.empty() && !ties.insert(parameter.tied_with).second) continue;
      kinds[index(MemoryKind::weights)] += round(share.weights.count());
      // Tensors of their own in fp32: the master weights, each moment.
      const std::int64_t tensors = bytes.optimizer / 4;
      if (tensors > 0)
        kinds[index(MemoryKind::optimizer_state)] +=
            tensors * round((share.optimizer.count() + tensors - 1) / tensors);
    }
  }
  return kinds;
}

std::int64_t StageMemory::input_of(std::size_t layer) const {
  return layer == 0 ? stage_input_ : tensors_[layer - 1].output_bytes_per_sample * batch_;
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
  for (const LayerTensors& layer : tensors_) largest = std::max(largest, elements(layer));
  return 2 * largest * bytes_per_element(plan_.dtype);
}

void StageMemory::forward(Meter& meter, MemoryKind kept, bool input_only, bool keeps_output) const {
  for (std::size_t l = 0; l < tensors_.size(); ++l) {
    const LayerTensors& t = tensors_[l];
    const bool last = l + 1 == tensors_.size();
    meter.allocate(last ? MemoryKind::activations : kept, t.output_bytes_per_sample * batch_);
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
    if (last && !keeps_output)
      meter.release(MemoryKind::activations, t.output_bytes_per_sample * batch_);
  }
}

void StageMemory::input_pass(Meter& meter, std::size_t l, MemoryKind kept) const {
  const LayerTensors& t = tensors_[l];
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
  if (!t.w_needs_output_gradient)
    meter.release(MemoryKind::activations, t.output_bytes_per_sample * batch_);
}

// From ZeRO-2 on, a layer's gradient is whole only until it is reduced to the replicas that own its
// parts.
void StageMemory::weight_pass(Meter& meter, std::size_t l, MemoryKind kept) const {
  const LayerTensors& t = tensors_[l];
  const std::int64_t whole = plan_.zero >= 2 && plan_.replicas() > 1 ? 4 * elements(t) : 0;
  meter.touch(MemoryKind::workspace, t.workspace_w_bytes_per_sample * batch_ + whole);
  for (const KeptTensor& tensor : t.saved) {
    if (tensor.until == KeptUntil::W) meter.release(kept, tensor.bytes_per_sample * batch_);
  }
  for (const KeptTensor& tensor : t.carried)
    meter.release(MemoryKind::activations, tensor.bytes_per_sample * batch_);
  if (t.saves_input && t.input_until == KeptUntil::W)
    meter.release(input_kind(l, kept), input_of(l));
  if (t.w_needs_output_gradient)
    meter.release(MemoryKind::activations, t.output_bytes_per_sample * batch_);
}

}  // namespace weir
