// One stage's tensors, walked once for each kind of action.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/stage_memory.hpp"

#include <algorithm>
#include <map>

#include "costmodel/links/offload.hpp"
#include "costmodel/links/parallel.hpp"
#include "costmodel/memory/memory_rules.hpp"
#include "costmodel/memory/training_state.hpp"
#include "plan/model/block_matrices.hpp"

namespace weir {
namespace {

// Bytes a parameter as a stack holds them.
StateBytes software_state(const StackMemory& memory, Dtype dtype) {
  return {memory.weights > 0 ? static_cast<std::int64_t>(memory.weights) : bytes_per_element(dtype),
          static_cast<std::int64_t>(memory.gradients), static_cast<std::int64_t>(memory.optimizer)};
}

}  // namespace

StageMemory::StageMemory(const Plan& plan, const ModelPart& part, const StagePart& stage,
                         Allocator allocator, const Stack& stack)
    : plan_(plan),
      part_(part),
      first_(stage.layers.first),
      layers_(static_cast<std::size_t>(stage.layers.size())),
      allocator_(allocator),
      software_(stack.memory),
      own_tensors_(stack.own_tensors),
      fp8_(stack.fp8 || plan.fp8 != Fp8Recipe::none),
      stays_gathered_(stays_gathered(plan, stack)),
      copies_travel_(plan.offload_activations > 0 && !stack.time.blocking_offload),
      mode_(plan.recompute.mode),
      batch_(plan.micro_batch_size),
      stage_(stage),
      stage_input_(stage.input_bytes * batch_),
      stage_output_(stage.output_bytes * batch_) {
  for (int l = stage.layers.first; l < stage.layers.last; ++l)
    rebuilt_.push_back(rebuilds(plan.recompute, part.layer(l), l));
  chunk_starts_ = chunk_starts(plan.recompute, rebuilt_);
  alike_ = walks();
}

std::vector<LayerRange> StageMemory::walks() const {
  const auto like = [this](std::size_t a, std::size_t b) {
    const auto kind = [this](std::size_t l) { return part_.kind_of(first_ + static_cast<int>(l)); };
    // Chunks of several layers have each its first and its last.
    return kind(a) == kind(b) && rebuilt_[a] == rebuilt_[b] && chunk_starts_[a] == a &&
           chunk_starts_[b] == b;
  };
  std::vector<LayerRange> ranges;
  bool before = false;  // the last one is like its neighbours
  for (std::size_t l = 0; l < layers_; ++l) {
    const bool now = l > 0 && l + 1 < layers_ && like(l - 1, l) && like(l, l + 1);
    const int layer = static_cast<int>(l);
    if (!now || !before) ranges.push_back({layer, layer});
    ranges.back().last = layer + 1;
    before = now;
  }
  return ranges;
}

template <class Walk>
void StageMemory::walk_alike(FootprintMeter& meter, int layer, int count, const Walk& walk) const {
  const auto l = static_cast<std::size_t>(layer);
  walk(meter, l);
  if (count == 1) return;
  // The first of them may have met what another kind of layer left; from then on each does the
  // same.
  FootprintMeter once = meter.anew();
  walk(once, l);
  meter.repeat(once, count - 1);
}

template <class Walk>
void StageMemory::upwards(FootprintMeter& meter, const Walk& walk) const {
  for (const LayerRange& range : alike_) walk_alike(meter, range.first, range.size(), walk);
}

template <class Walk>
void StageMemory::downwards(FootprintMeter& meter, const Walk& walk) const {
  for (std::size_t i = alike_.size(); i-- > 0;)
    walk_alike(meter, alike_[i].first, alike_[i].size(), walk);
}

Footprint StageMemory::of(ActionKind kind, bool remat) const {
  FootprintMeter meter(allocator_);
  // A micro-batch's gradients in the number format, where they are added to the sums at its end.
  const bool backward = is_backward(kind) || kind == ActionKind::W;
  const std::int64_t beside =
      gathered_weights(kind) + (backward ? of_trained(software_.backward_gradients) : 0);
  meter.allocate(MemoryKind::workspace, beside);
  switch (kind) {
    case ActionKind::F:
      join_row(meter, {{}, ActionKind::RECV_F});
      upwards(meter, [&](FootprintMeter& of, std::size_t l) { forward(of, l, remat); });
      if (copies_travel_) meter.hold_instead(0);
      part_row(meter, {{}, ActionKind::SEND_F});
      break;
    case ActionKind::R:
      upwards(meter, [&](FootprintMeter& of, std::size_t l) { rematerialise(of, l); });
      break;
    case ActionKind::I:
      join_row(meter, {{}, ActionKind::RECV_B});
      downwards(meter, [&](FootprintMeter& of, std::size_t l) {
        beside_copies(of, l, remat, [&] { input_pass(of, l, remat); });
      });
      part_row(meter, {{}, ActionKind::SEND_B});
      break;
    case ActionKind::W:
      // W's layers go downwards, as I's do: what a layer kept is free before the next one's.
      downwards(meter, [&](FootprintMeter& of, std::size_t l) { weight_pass(of, l, remat); });
      meter.hold_instead(0);
      break;
    case ActionKind::B:
      join_row(meter, {{}, ActionKind::RECV_B});
      downwards(meter, [&](FootprintMeter& of, std::size_t l) {
        beside_copies(of, l, remat, [&] {
          input_pass(of, l, remat);
          weight_pass(of, l, remat);
        });
      });
      meter.hold_instead(0);
      part_row(meter, {{}, ActionKind::SEND_B});
      break;
    default:
      break;
  }
  meter.release(MemoryKind::workspace, beside);
  return meter.footprint();
}

std::vector<Bytes> held_between_steps(const Plan& plan, const ModelPart& part,
                                      const ScheduleShape& shape, const Cluster& cluster) {
  const Bytes process = memory_rules(cluster, part).process_overhead;
  std::vector<Bytes> held(static_cast<std::size_t>(shape.ranks), process);
  std::int32_t stage = 0;
  for (const StagePart& its : stage_parts(part, plan.boundaries, shape)) {
    const StageMemory memory(plan, part, its, cluster.device.allocator, cluster.stack);
    held[static_cast<std::size_t>(shape.rank_of(Stage{stage++}).value)] +=
        Bytes(total_bytes(memory.parameters()));
  }
  return held;
}

Bytes mean_held(const Plan& plan, const ModelPart& part, const ScheduleShape& shape,
                const Cluster& cluster) {
  Bytes sum{0};
  for (const Bytes held : held_between_steps(plan, part, shape, cluster)) sum += held;
  return Bytes(sum.count() / shape.ranks);
}

BytesByKind StageMemory::of_layer(std::size_t l,
                                  const std::function<bool(ParameterId)>& held_already) const {
  const StateBytes usual = own_tensors_ ? state_bytes(plan_.optimizer, plan_.dtype)
                                        : software_state(software_, plan_.dtype);
  const LayerPart& its = layer(l);
  BytesByKind kinds{};
  ParameterId use{first_ + static_cast<int>(l), 0};
  for (const ParameterTensor& tensor : its.tensors.parameters) {
    StateBytes bytes = usual;
    // Muon keeps one moment of a matrix, where adamw keeps two.
    if (plan_.optimizer.kind == OptimizerKind::muon && is_orthogonalised(its, tensor))
      bytes.optimizer -= 4;
    const int copies = tensor.expert ? plan_.expert_sharers() : plan_.sharers();
    // Running statistics are every replica's.
    const int zero = own_tensors_ && tensor.running ? 0 : plan_.zero;
    const StateShare share = zero_share(tensor.elements(), bytes, zero, copies);
    // A slice is never multiplied: only what is whole is filled up.
    const auto padding = [&](int divided_from) {
      return own_tensors_ && (zero < divided_from || copies == 1) ? tensor.padding : 0;
    };
    const bool again = !tensor.tied_with.empty() && held_already(use);
    ++use.tensor;
    // Our executor has a gradient for each use, autograd adds them up in one for each weight.
    if (!tensor.frozen && (!again || own_tensors_))
      kinds[MemoryKind::gradients] += round(share.gradients.count() + padding(2) * 4);
    if (again) continue;
    // Where the stack keeps copies of what it multiplies they are all there is of it.
    const bool copies_alone =
        plan_.fp8_parameters && software_.fp8_weights > 0 && multiplies(its, tensor);
    if (!copies_alone) {
      kinds[MemoryKind::weights] +=
          round(share.weights.count() + padding(3) * bytes_per_element(plan_.dtype));
    }
    // Tensors of their own in fp32: the master weights, each moment.
    const bool learned = !tensor.running && !tensor.frozen;
    const std::int64_t tensors = learned ? bytes.optimizer / 4 : 0;
    if (tensors > 0)
      kinds[MemoryKind::optimizer_state] +=
          tensors * round(on_device(ceil_div(share.optimizer.count(), tensors)));
    // What moves by hundredths a step does so in fp32 beside the copy in 16 bits.
    if (own_tensors_ && tensor.running && bytes_per_element(plan_.dtype) < 4)
      kinds[MemoryKind::optimizer_state] += round(tensor.elements() * 4);
  }
  return kinds;
}

BytesByKind StageMemory::parameters() const {
  BytesByKind kinds{};
  std::vector<ParameterId> tied;  // uses of weights whose first use is in an earlier stage
  bool shares = false;            // the layer at hand uses a weight that others use
  const auto held_already = [&](ParameterId use) {
    const ParameterId weight = part_.weight(use);
    shares = true;
    if (weight.layer >= first_) return weight != use;
    if (std::ranges::find(tied, weight) != tied.end()) return true;
    tied.push_back(weight);
    return false;
  };
  std::map<int, BytesByKind> known;  // of layers that share no weight, by kind
  for (std::size_t l = 0; l < layers_; ++l) {
    const int kind = part_.kind_of(first_ + static_cast<int>(l));
    const auto found = known.find(kind);
    if (found != known.end()) {
      kinds += found->second;
      continue;
    }
    shares = false;
    const BytesByKind its = of_layer(l, held_already);
    kinds += its;
    if (!shares) known.emplace(kind, its);
  }
  // Buckets are for replicas that sum whole gradients.
  const bool alone = plan_.zero > 0 || plan_.replicas() == 1;
  kinds[MemoryKind::gradients] += of_trained(alone ? 0 : software_.buckets);
  if (stays_gathered_) {
    kinds[MemoryKind::weights] += of_parameters(software_.pipeline_weights);
    kinds[MemoryKind::gradients] += of_trained(software_.pipeline_gradients);
  }
  if (fp8_) kinds[MemoryKind::weights] += of_products(software_.fp8_weights);
  if (plan_.zero_secondary > 0) {
    const double each = static_cast<double>(bytes_per_element(plan_.dtype)) / plan_.zero_secondary;
    kinds[MemoryKind::weights] += of_parameters(each);
  }
  return kinds;
}

// The rest is in the host's memory.
std::int64_t StageMemory::on_device(std::int64_t state) const {
  const double kept = static_cast<double>(state) * (1 - plan_.offload_optimizer);
  return plan_.offload_optimizer == 0 ? state : static_cast<std::int64_t>(kept);
}

std::int64_t StageMemory::gradients_to_come() const {
  return software_.gradients_come && !own_tensors_ ? parameters()[MemoryKind::gradients] : 0;
}

std::int64_t StageMemory::of_parameters(double bytes) const {
  std::int64_t numbers = 0;
  for (std::size_t l = 0; l < layers_; ++l) numbers += layer(l).parameters;
  return round(static_cast<std::int64_t>(static_cast<double>(numbers) * bytes));
}

std::int64_t StageMemory::of_trained(double bytes) const {
  std::int64_t numbers = 0;
  for (std::size_t l = 0; l < layers_; ++l) numbers += layer(l).trained_parameters;
  return round(static_cast<std::int64_t>(static_cast<double>(numbers) * bytes));
}

// With a scale of 8 bits for every 32 in MXFP8; those of larger blocks are next to nothing.
std::int64_t StageMemory::of_products(double bytes) const {
  std::int64_t numbers = 0;
  for (std::size_t l = 0; l < layers_; ++l) {
    for (const ParameterTensor& tensor : layer(l).tensors.parameters)
      numbers += multiplies(layer(l), tensor) ? tensor.elements() : 0;
  }
  const double scales = plan_.fp8 == Fp8Recipe::mxfp8 ? 1 + 1.0 / 32 : 1;
  return round(static_cast<std::int64_t>(static_cast<double>(numbers) * bytes * scales));
}

std::int64_t StageMemory::at_update() const {
  return plan_.zero > 0 && plan_.replicas() > 1 ? of_trained(software_.at_update) : 0;
}

std::int64_t StageMemory::input_of(std::size_t layer) const {
  return layer == 0 ? stage_input_ : output_of(layer - 1);
}

// What skips carry past the stage's end travels with its last output and lives as long as that.
std::int64_t StageMemory::output_of(std::size_t l) const {
  return l + 1 == layers_ ? stage_output_ : layer(l).tensors.output_bytes_per_sample * batch_;
}

// What F does not keep of what the layer saves.
bool StageMemory::dropped(std::size_t layer, const KeptTensor& tensor, bool remat) const {
  switch (mode_) {
    case RecomputeMode::selective:
      return tensor.rebuilt_by.meets(plan_.recompute.modules);
    case RecomputeMode::full:
      return remat && rebuilt_[layer];
    case RecomputeMode::stage:
      return remat;
    case RecomputeMode::none:
      break;
  }
  return false;
}

// In the backward: what was dropped has been made again.
MemoryKind StageMemory::saved_kind(std::size_t layer, const KeptTensor& tensor, bool remat) const {
  return dropped(layer, tensor, remat) ? MemoryKind::rematerialised : MemoryKind::activations;
}

// A layer whose input is the rebuilt output of the layer before it.
bool StageMemory::inside_chunk(std::size_t layer, bool remat) const {
  return remat && rebuilt_[layer] && chunk_starts_[layer] < layer;
}

bool StageMemory::chunk_ends(std::size_t layer, bool remat) const {
  return layer + 1 == layers_ || !inside_chunk(layer + 1, remat);
}

// The stage's own input came from elsewhere and is an activation even when the rest of the stage is
// re-materialised; a chunk of layers that is rebuilt by itself has kept its input.
MemoryKind StageMemory::input_kind(std::size_t layer, bool remat) const {
  const bool rebuilt =
      inside_chunk(layer, remat) || (mode_ == RecomputeMode::stage && remat && layer > 0);
  return rebuilt ? MemoryKind::rematerialised : MemoryKind::activations;
}

// ZeRO-3 gathers a layer's weights when it needs them, and the next layer's meanwhile: two of the
// largest. Our executor takes them tensor by tensor, one where there is no next, and none in a W of
// its own, which reads no weights.
std::int64_t StageMemory::gathered_weights(ActionKind kind) const {
  if (plan_.zero < 3 || plan_.replicas() == 1 || stays_gathered_) return 0;
  if (own_tensors_ && kind == ActionKind::W) return 0;
  const std::int64_t each = bytes_per_element(plan_.dtype);
  std::int64_t largest = 0;
  for (std::size_t l = 0; l < layers_; ++l) {
    largest = std::max(
        largest, own_tensors_ ? whole_bytes(layer(l).tensors, each) : layer(l).parameters * each);
  }
  return largest * (own_tensors_ && layers_ < 2 ? 1 : 2);
}

// The row of a stage that takes skips directly is put together from messages, the neighbour's
// first.
void StageMemory::join_row(FootprintMeter& meter, const Action& neighbour) const {
  const bool forward = neighbour.kind == ActionKind::RECV_F;
  const std::vector<StageSkip>& skips = forward ? stage_.skips_in : stage_.skips_out;
  if (skips.empty()) return;
  meter.allocate(MemoryKind::activations, forward ? stage_input_ : stage_output_);
  meter.release(MemoryKind::activations, stage_.message_bytes(neighbour) * batch_);
  for (const StageSkip& skip : skips) meter.release(MemoryKind::activations, skip.bytes * batch_);
}

void StageMemory::part_row(FootprintMeter& meter, const Action& neighbour) const {
  const bool forward = neighbour.kind == ActionKind::SEND_F;
  const std::vector<StageSkip>& skips = forward ? stage_.skips_out : stage_.skips_in;
  if (skips.empty()) return;
  meter.allocate(MemoryKind::activations, stage_.message_bytes(neighbour) * batch_);
  for (const StageSkip& skip : skips) meter.allocate(MemoryKind::activations, skip.bytes * batch_);
  meter.release(MemoryKind::activations, forward ? stage_output_ : stage_input_);
}

void StageMemory::forward(FootprintMeter& meter, std::size_t l, bool remat) const {
  const LayerTensors& t = layer(l).tensors;
  // What of a module is to be dropped is re-materialised memory from the start.
  const auto kind = [&](const KeptTensor& tensor) {
    const bool module = mode_ == RecomputeMode::selective && dropped(l, tensor, remat);
    return module ? MemoryKind::rematerialised : MemoryKind::activations;
  };
  meter.allocate(MemoryKind::activations, output_of(l));
  for (const KeptTensor& tensor : t.saved)
    meter.allocate(kind(tensor), tensor.bytes_per_sample * batch_);
  meter.touch(MemoryKind::workspace, t.workspace_f_bytes_per_sample * batch_);
  // A module to be rebuilt is run in the forward like any other: its tensors are there, then
  // dropped.
  for (const KeptTensor& tensor : t.saved) {
    if (dropped(l, tensor, remat)) meter.release(kind(tensor), tensor.bytes_per_sample * batch_);
  }
  if (!keeps_input(l, remat)) meter.release(MemoryKind::activations, input_of(l));
  if (plan_.offload_activations == 0) return;
  const std::int64_t away = with_the_host(l, remat);
  meter.release(MemoryKind::activations, away);
  // What goes to the host is there until its copy has ended, beside the next layer.
  if (copies_travel_) meter.hold_instead(away);
}

std::int64_t StageMemory::with_the_host(std::size_t l, bool remat) const {
  if (!remat || !rebuilt_[l]) return offloaded_bytes(layer(l), plan_, false);
  if (!keeps_input(l, remat)) return 0;
  return static_cast<std::int64_t>(static_cast<double>(input_of(l)) * plan_.offload_activations);
}

// A chunk's input is read as its last layer is reached, from which all of it is rebuilt.
std::int64_t StageMemory::from_the_host(std::size_t l, bool remat) const {
  if (!remat || !rebuilt_[l]) return with_the_host(l, remat);
  return chunk_ends(l, remat) ? with_the_host(chunk_starts_[l], remat) : 0;
}

// The next layer's copy comes meanwhile, and is there until the pass has ended.
template <class Pass>
void StageMemory::beside_copies(FootprintMeter& meter, std::size_t l, bool remat,
                                const Pass& pass) const {
  const bool any = plan_.offload_activations > 0;
  const std::int64_t next = copies_travel_ && l > 0 ? from_the_host(l - 1, remat) : 0;
  if (any) meter.allocate(MemoryKind::activations, from_the_host(l, remat));
  meter.allocate(MemoryKind::workspace, next);
  pass();
  meter.release(MemoryKind::workspace, next);
}

// After F: what the layer saves, what it is rebuilt from, and what its stage is rebuilt from.
bool StageMemory::keeps_input(std::size_t l, bool remat) const {
  if (mode_ == RecomputeMode::stage && remat) return l == 0;
  if (remat && rebuilt_[l]) return chunk_starts_[l] == l;
  return layer(l).tensors.saves_input;
}

void StageMemory::rematerialise(FootprintMeter& meter, std::size_t l) const {
  const LayerTensors& t = layer(l).tensors;
  const bool last = l + 1 == layers_;
  const MemoryKind kind = last ? MemoryKind::activations : MemoryKind::rematerialised;
  meter.allocate(kind, output_of(l));
  for (const KeptTensor& tensor : t.saved)
    meter.allocate(MemoryKind::rematerialised, tensor.bytes_per_sample * batch_);
  meter.touch(MemoryKind::workspace, t.workspace_f_bytes_per_sample * batch_);
  if (!t.saves_input) meter.release(input_kind(l, true), input_of(l));
  if (last) meter.release(kind, output_of(l));
}

// All of a chunk, whose last layer's output nobody reads, before that layer's backward.
void StageMemory::rebuild_chunk(FootprintMeter& meter, std::size_t last) const {
  for (std::size_t l = chunk_starts_[last]; l <= last; ++l) {
    const LayerTensors& t = layer(l).tensors;
    meter.allocate(MemoryKind::rematerialised, output_of(l));
    for (const KeptTensor& tensor : t.saved)
      meter.allocate(MemoryKind::rematerialised, tensor.bytes_per_sample * batch_);
    meter.touch(MemoryKind::workspace, t.workspace_f_bytes_per_sample * batch_);
    if (l == last) meter.release(MemoryKind::rematerialised, output_of(l));
    if (!t.saves_input) meter.release(input_kind(l, true), input_of(l));
  }
}

void StageMemory::input_pass(FootprintMeter& meter, std::size_t l, bool remat) const {
  const LayerTensors& t = layer(l).tensors;
  // A chunk of layers is rebuilt as a whole, before its last layer's backward.
  if (remat && rebuilt_[l] && chunk_ends(l, remat)) rebuild_chunk(meter, l);
  meter.allocate(MemoryKind::activations, input_of(l));
  for (const KeptTensor& tensor : t.carried)
    meter.allocate(MemoryKind::activations, tensor.bytes_per_sample * batch_);
  for (const KeptTensor& tensor : t.saved) {
    if (mode_ == RecomputeMode::selective && dropped(l, tensor, remat))
      meter.allocate(MemoryKind::rematerialised, tensor.bytes_per_sample * batch_);
  }
  meter.touch(MemoryKind::workspace, t.workspace_i_bytes_per_sample * batch_);
  for (const KeptTensor& tensor : t.saved) {
    if (tensor.until == KeptUntil::I)
      meter.release(saved_kind(l, tensor, remat), tensor.bytes_per_sample * batch_);
  }
  if (t.saves_input && t.input_until == KeptUntil::I)
    meter.release(input_kind(l, remat), input_of(l));
  if (!t.w_needs_output_gradient) meter.release(MemoryKind::activations, output_of(l));
}

// From ZeRO-2 on, a layer's gradient is whole only until it is reduced to the replicas that own its
// parts: by our executor beside what comes next, until the next layer's gradient.
void StageMemory::weight_pass(FootprintMeter& meter, std::size_t l, bool remat) const {
  const LayerTensors& t = layer(l).tensors;
  const bool reduced = plan_.zero >= 2 && plan_.replicas() > 1 && !stays_gathered_;
  if (reduced && own_tensors_) meter.hold_instead(whole_bytes(t, 4));
  const std::int64_t whole = reduced && !own_tensors_ ? 4 * layer(l).trained_parameters : 0;
  meter.touch(MemoryKind::workspace, t.workspace_w_bytes_per_sample * batch_ + whole);
  for (const KeptTensor& tensor : t.saved) {
    if (tensor.until == KeptUntil::W)
      meter.release(saved_kind(l, tensor, remat), tensor.bytes_per_sample * batch_);
  }
  for (const KeptTensor& tensor : t.carried)
    meter.release(MemoryKind::activations, tensor.bytes_per_sample * batch_);
  if (t.saves_input && t.input_until == KeptUntil::W)
    meter.release(input_kind(l, remat), input_of(l));
  if (t.w_needs_output_gradient) meter.release(MemoryKind::activations, output_of(l));
}

}  // namespace weir
