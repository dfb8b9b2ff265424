// Rough costs from datasheet rates, for answers before anything was measured. A layer takes the sum
// of its kernels (costmodel/layers/kernels) where the device says how well it runs them; otherwise
// the longer of its products at a fraction of the peak and its bytes at a fraction of the memory
// bandwidth (roofline: Williams et al., CACM 2009).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/builtin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "costmodel/layers/kernels.hpp"
#include "costmodel/layers/layer_key.hpp"
#include "costmodel/layers/layer_math.hpp"
#include "costmodel/memory/training_state.hpp"
#include "costmodel/table/device_kind.hpp"
#include "plan/model/alike_layers.hpp"
#include "plan/model/model_part.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// Shares of the datasheet's rates that training reaches; rough by nature, hence the basis
// "builtin". The fp32 share is what our own CPU blocks reach of 64 FLOPs a cycle (tests/bench), the
// others the range of published MFU (Megatron-LM, SC 2021, table 1: 44-52 %).
constexpr double kComputeShare = 0.45;
constexpr double kBandwidthShare = 0.6;

// Micro-batch sizes that a table holds: each of the usual ones, so that no step of the quantisation
// is smoothed away, and then some, between which times are interpolated.
std::vector<int> table_sizes() {
  std::vector<int> sizes;
  for (int b = 1; b <= 64; ++b) sizes.push_back(b);
  for (int b = 80; b <= 1024; b += b / 4) sizes.push_back(b);
  return sizes;
}

// The update reads and writes weight, master copy and moments, and reads the gradient: 28 bytes a
// parameter for AdamW in fp32, 2 + 4 + 2 x 12 = 30 mixed.
Bytes update_bytes(std::int64_t parameters, Dtype dtype) {
  const StateBytes state = state_bytes(Optimizer{}, dtype);
  const std::int64_t weights = state.weights < 4 ? state.weights : 2 * state.weights;
  return Bytes(parameters * (weights + state.gradients + 2 * state.optimizer));
}

class Builtin {
 public:
  Builtin(const Model& model, std::int64_t seq_length, Dtype dtype, const Device& device,
          const Stack& stack)
      : model_(model), seq_length_(seq_length), dtype_(dtype), device_(device), stack_(stack) {}

  // Kernel by kernel, of one device of a split.
  [[nodiscard]] LayerCost by_kernels(const Layer& layer, const Split& split,
                                     const LayerPart& part) const {
    LayerCost cost;
    cost.key = layer_key(layer, seq_length_, dtype_, split);
    for (const int batch : table_sizes()) {
      cost.by_batch[batch] = kernel_times(layer, seq_length_, dtype_, split, batch, device_, stack_,
                                          part.trained_parameters);
    }
    cost.optimizer = update_time(part);
    return cost;
  }

  // By shares of the rates, whole.
  [[nodiscard]] LayerCost by_shares(int l, const ModelPart& whole) const {
    const Layer& layer = model_.layers[static_cast<std::size_t>(l)];
    const FlopsPerSecond rate(peak_rate(device_, dtype_).count() * kComputeShare);
    const BytesPerSecond bandwidth(device_.memory_bandwidth.count() * kBandwidthShare);
    const Bytes activations =
        activation_bytes(whole, l) + Bytes(whole.layer(l).tensors.output_bytes_per_sample);
    const Bytes weights(parameter_count(layer) * bytes_per_element(dtype_));
    LayerCost cost;
    cost.key = layer_key(layer, seq_length_, dtype_);
    // Two sizes are enough: what lies between is interpolated, and the times are lines but for the
    // roofline's bend.
    for (const int batch : {1, 1024}) {
      const Flops flops = executed_flops(layer, seq_length_) * static_cast<double>(batch);
      const Bytes bytes = activations * std::int64_t{batch} + weights;
      const Seconds f = std::max(flops / rate, bytes / bandwidth);
      // A fused core's fifth product, its scores again, is I's.
      const Seconds again = scores_again(layer) * static_cast<double>(batch) / rate;
      const LayerShares shares = layer_shares(layer, seq_length_);
      const Seconds i = layer.treated.backward ? f * shares.input + again : Seconds(0),
                    w = f * shares.weights;
      cost.by_batch[batch] = {{.f = f * shares.forward, .i = i, .w = w, .b = i + w}};
    }
    // AdamW: reads and writes of w, m, v, and g.
    const std::int64_t trained =
        layer.treated.frozen ? whole.layer(l).trained_parameters : parameter_count(layer);
    cost.optimizer = Bytes(trained * 28) / bandwidth;
    return cost;
  }

 private:
  // No shorter than the launches of a stack that updates tensor by tensor.
  [[nodiscard]] Seconds update_time(const LayerPart& part) const {
    const StackTime& time = stack_.time;
    const Bytes bytes = time.update > 0
                            ? Bytes(static_cast<std::int64_t>(
                                  static_cast<double>(part.trained_parameters) * time.update))
                            : update_bytes(part.trained_parameters, dtype_);
    if (part.trained_parameters == 0) return Seconds(0);
    const auto tensors = std::ranges::count_if(
        part.tensors.parameters, [](const ParameterTensor& tensor) { return !tensor.frozen; });
    const double kernels = time.kernels_a_tensor * static_cast<double>(tensors);
    // Many small tensors: then their launches take longer than their bytes.
    return std::max(stream_time(bytes, device_),
                    time.launch.value_or(device_.kernels->launch) * kernels);
  }
  [[nodiscard]] Flops scores_again(const Layer& layer) const {
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block == nullptr) return Flops(0);
    const CoreFlops core = core_flops(*block, seq_length_);
    return core.backward - core.forward * 2.0;
  }

  const Model& model_;
  std::int64_t seq_length_;
  Dtype dtype_;
  const Device& device_;
  const Stack& stack_;
};

}  // namespace

Costs builtin_costs(const Model& model, std::int64_t seq_length, Dtype dtype,
                    const Cluster& cluster, const std::vector<Split>& splits) {
  const Device& device = cluster.device;
  Costs costs;
  costs.basis = Basis::builtin;
  costs.machine = device.name;
  costs.backend = is_gpu(device) ? "cuda" : "cpu";
  costs.origin =
      device.kernels
          ? fmt::format("kernels of {} by {}", device.name, cluster.name)
          : fmt::format("datasheet rates of {}, {} % of its products, {} % of its bandwidth",
                        device.name, kComputeShare * 100, kBandwidthShare * 100);
  costs.seq_length = seq_length;
  costs.dtype = dtype;
  costs.link = cluster.intra;
  costs.step_overhead = cluster.stack.time.step;
  const Builtin builtin(model, seq_length, dtype, device, cluster.stack);
  std::optional<ModelPart> whole;  // where a layer needs it
  std::vector<ModelPart> parts;
  for (const Split& split : splits) parts.push_back(model_part(model, seq_length, dtype, split));
  std::set<std::string> known;
  // Layers that are alike have one key.
  for (const int l : alike_layers(model.layers).first) {
    const Layer& layer = model.layers[static_cast<std::size_t>(l)];
    if (std::holds_alternative<TimedShape>(layer.shape)) continue;
    if (peak_rate(device, dtype).count() <= 0) {
      throw InputError(cluster.name, "device.peak_fp32_tflops",
                       fmt::format("is missing, and {} has no other rate for {}", device.name,
                                   to_string(dtype)));
    }
    if (layer.treated.fp8 != Fp8Recipe::none && device.peak_fp8.count() <= 0) {
      throw InputError(cluster.name, "device.peak_fp8_tflops",
                       fmt::format("is missing: {}'s products are in 8 bits (fp8 = {})", layer.name,
                                   to_string(layer.treated.fp8)));
    }
    const bool maps = std::holds_alternative<SizedShape>(layer.shape) ||
                      std::holds_alternative<CellShape>(layer.shape);
    // Maps have no kernels' model: they are priced by shares of the rates.
    if (!device.kernels || maps) {
      if (known.insert(layer_key(layer, seq_length, dtype)).second) {
        if (!whole) whole = model_part(model, seq_length, dtype);
        costs.layers.push_back(builtin.by_shares(l, *whole));
      }
      continue;
    }
    for (std::size_t s = 0; s < splits.size(); ++s) {
      if (known.insert(layer_key(layer, seq_length, dtype, splits[s])).second)
        costs.layers.push_back(builtin.by_kernels(layer, splits[s], parts[s].layer(l)));
    }
  }
  // Cost tables of other kinds of device are made the same way, and go along.
  for (int kind = 1; kind < cluster.kinds(); ++kind)
    costs.other_kinds.push_back(
        builtin_costs(model, seq_length, dtype, cluster.kind(kind), splits));
  return costs;
}

}  // namespace weir
