// Rough costs from datasheet rates, for answers before anything was measured. A layer takes the longer of its products
// at a fraction of the peak and its bytes at a fraction of the memory bandwidth (roofline: Williams et al., CACM 2009).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "costmodel/costs.hpp"
#include "costmodel/layer_math.hpp"
#include "plan/layer_tensors.hpp"

namespace weir {
namespace {

// Shares of the datasheet's rates that training reaches; rough by nature, hence the basis "builtin". The fp32 share is
// what our own CPU blocks reach of 64 FLOPs a cycle (tests/bench), the others the range of published MFU (Megatron-LM,
// SC 2021, table 1: 44-52 %).
constexpr double kComputeShare = 0.45;
constexpr double kBandwidthShare = 0.6;

FlopsPerSecond peak(const Device& device, Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32:
      return device.peak_fp32;
    case Dtype::tf32:
      return device.peak_tf32.count() > 0 ? device.peak_tf32 : device.peak_fp32;
    case Dtype::fp16:
      if (device.peak_fp16.count() > 0) return device.peak_fp16;
      [[fallthrough]];
    default:
      return device.peak_bf16.count() > 0 ? device.peak_bf16 : device.peak_fp32;
  }
}

}  // namespace

Costs builtin_costs(const Model& model, std::int64_t seq_length, Dtype dtype, const Cluster& cluster) {
  Costs costs;
  costs.basis = Basis::builtin;
  costs.machine = cluster.device.name;
  costs.backend = cluster.device.multiprocessors > 0 ? "cuda" : "cpu";
  costs.origin = fmt::format("datasheet rates of {}, {} % of its products, {} % of its bandwidth", cluster.device.name,
                             kComputeShare * 100, kBandwidthShare * 100);
  costs.seq_length = seq_length;
  costs.dtype = dtype;
  costs.link = cluster.intra;
  const FlopsPerSecond rate(peak(cluster.device, dtype).count() * kComputeShare);
  const BytesPerSecond bandwidth(cluster.device.memory_bandwidth.count() * kBandwidthShare);
  std::set<std::string> known;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    if (std::holds_alternative<TimedShape>(layer.shape)) continue;
    LayerCost cost;
    cost.key = layer_key(layer, seq_length, dtype);
    if (!known.insert(cost.key).second) continue;
    const LayerTensors tensors = layer_tensors(layer, seq_length, dtype);
    const Bytes activations =
        activation_bytes(model, static_cast<int>(l), seq_length, dtype) + boundary_bytes(layer, seq_length, dtype);
    const Bytes weights(parameter_count(layer) * bytes_per_element(dtype));
    const auto time = [&](int batch) {
      const Flops flops = forward_flops(layer, seq_length) * static_cast<double>(batch);
      const Bytes bytes = activations * std::int64_t{batch} + weights;
      const Seconds f = std::max(flops / rate, bytes / bandwidth);
      return LayerTime{f, f, f, f * 2.0, 0};
    };
    for (const int batch : {1, 1024}) cost.by_batch[batch] = time(batch);
    cost.optimizer = Bytes(parameter_count(layer) * 28) / bandwidth;  // AdamW: reads and writes of w, m, v, and g
    costs.layers.push_back(std::move(cost));
  }
  return costs;
}

}  // namespace weir
