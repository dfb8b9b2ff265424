// Updates by the host (docs/theory.md 6.6).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/offload.hpp"

#include <algorithm>
#include <vector>

#include "costmodel/links/collectives.hpp"

namespace weir {

std::int64_t repeated_numbers(const ModelPart& part, std::span<const LayerRange> held) {
  std::int64_t repeated = 0;
  for (const std::vector<ParameterId>& uses : part.ties) {
    bool known = false;
    for (const ParameterId use : uses) {
      const bool here = std::ranges::any_of(held, [use](const LayerRange& layers) {
        return use.layer >= layers.first && use.layer < layers.last;
      });
      if (!here) continue;
      const ParameterTensor& tensor = part.parameter(use);
      if (known && !tensor.frozen) repeated += tensor.elements();
      known = true;
    }
  }
  return repeated;
}

double offloaded_numbers(const StagePart& stage, const Plan& plan, std::int64_t repeated) {
  const std::int64_t experts = stage.trained_expert_parameters;
  const int among = plan.zero > 0 ? plan.sharers() : 1,
            expert_among = plan.zero > 0 ? plan.expert_sharers() : 1;
  const double numbers =
      static_cast<double>(stage.trained_parameters - experts - repeated) / among +
      static_cast<double>(experts) / expert_among;
  return numbers * plan.offload_optimizer;
}

OffloadedUpdate offloaded_update(double numbers, double gradient, const Plan& plan,
                                 const Cluster& cluster) {
  if (numbers <= 0) return {};
  const Host& host = cluster.host.value();
  const auto bytes = [numbers](double each) {
    return Bytes(static_cast<std::int64_t>(numbers * each));
  };
  const auto element = static_cast<double>(bytes_per_element(plan.dtype));
  // Weight, state and gradient are read, the first two written, each in fp32.
  const double read_and_written = 12 + 8 * state_numbers(plan.optimizer);
  return {point_to_point(bytes(gradient), host.link),
          bytes(read_and_written + element) / host.bandwidth,
          point_to_point(bytes(element), host.link)};
}

Bytes host_bytes(double numbers, const Optimizer& optimizer) {
  const int held = 8 + 4 * state_numbers(optimizer);
  return Bytes(static_cast<std::int64_t>(numbers * held));
}

std::int64_t kept_bytes(const LayerPart& layer, const Plan& plan, bool rebuilt) {
  if (!layer.block) return 0;
  const LayerTensors& tensors = layer.tensors;
  // Blocks read as much as they make.
  const std::int64_t input = tensors.output_bytes_per_sample;
  if (plan.recompute.mode == RecomputeMode::stage) return 0;
  // Of blocks that are rebuilt together the first one's.
  if (rebuilt) return input * plan.micro_batch_size / plan.recompute.at_a_time;
  const bool selective = plan.recompute.mode == RecomputeMode::selective;
  std::int64_t kept = tensors.saves_input ? input : 0;
  for (const KeptTensor& tensor : tensors.saved) {
    if (selective && tensor.rebuilt_by.meets(plan.recompute.modules)) continue;
    kept += tensor.bytes_per_sample;
  }
  return kept * plan.micro_batch_size;
}

std::int64_t offloaded_bytes(const LayerPart& layer, const Plan& plan, bool rebuilt) {
  if (plan.offload_activations == 0) return 0;
  const auto kept = static_cast<double>(kept_bytes(layer, plan, rebuilt));
  return static_cast<std::int64_t>(kept * plan.offload_activations);
}

Seconds offloading_time(std::int64_t bytes, const Cluster& cluster) {
  return bytes == 0 ? Seconds(0) : point_to_point(Bytes(bytes), cluster.host.value().link);
}

std::optional<std::string> lacks_host(const Plan& plan, const Cluster& cluster) {
  if (plan.offload_optimizer == 0 && plan.offload_activations == 0) return std::nullopt;
  for (int kind = 0; kind < cluster.kinds(); ++kind) {
    if (!cluster.kind(kind).host)
      return cluster.kind(kind).name + " says nothing of its host (`host`)";
  }
  return std::nullopt;
}

}  // namespace weir
