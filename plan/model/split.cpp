// What tensor and context parallelism leave of a layer on one device, and which layers refuse.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/split.hpp"

#include <fmt/format.h>

#include "plan/model/layer_kinds.hpp"

namespace weir {
namespace {

std::optional<Misfit> misfit_of(const Layer& layer, const Split& split) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  const bool opaque = std::holds_alternative<TimedShape>(layer.shape) ||
                      std::holds_alternative<SizedShape>(layer.shape);
  // Named is the first degree that was asked for.
  const char* key = split.tp > 1 ? "tp" : split.cp > 1 ? "cp" : "slices";
  if (std::holds_alternative<CellShape>(layer.shape)) {
    return Misfit{key, fmt::format("{} is made of convolutions and cannot be split", layer.name)};
  }
  if (opaque) {
    return Misfit{key, fmt::format("{} is known by its times or sizes alone and cannot be split",
                                   layer.name)};
  }
  if (block != nullptr && split.slices > 1 && (!block->causal || block->cross_attention)) {
    return Misfit{"slices", fmt::format("{} attends to tokens that come later", layer.name)};
  }
  if (block == nullptr || split.tp == 1) return std::nullopt;
  const std::pair<const char*, std::int64_t> widths[] = {
      {"heads", block->heads},
      {"key-value heads", block->kv_heads},
      // Of experts with an etp of their own: experts_misfit's.
      {"feed-forward width", split.etp > 0 && block->experts > 1 ? 0 : block->ffn},
      {"width of shared experts", block->shared_ffn}};
  for (const auto& [what, size] : widths) {
    if (size % split.tp != 0) {
      return Misfit{"tp", fmt::format("{} does not divide the {} {} of {}", split.tp, size, what,
                                      layer.name)};
    }
  }
  return std::nullopt;
}

std::optional<Misfit> experts_misfit(const Model& model, const Split& split) {
  if (split.ep == 1 && split.expert_load == 1 && split.etp == 0) return std::nullopt;
  // An etp of tp is written as 0: what is the same has one word.
  if (split.etp > 0 && (split.etp >= split.tp || split.tp % split.etp != 0))
    return Misfit{"etp", fmt::format("expected a divisor of tp = {} below it", split.tp)};
  if (split.etp > 0 && !split.sequence_parallel) {
    return Misfit{"etp",
                  "expected sequence_parallel: without it the tp devices have the same tokens"};
  }
  bool any = false;
  for (const Layer& layer : model.layers) {
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block == nullptr || block->experts == 1) continue;
    any = true;
    if (block->experts % split.ep != 0) {
      return Misfit{"ep", fmt::format("{} does not divide the {} experts of {}", split.ep,
                                      block->experts, layer.name)};
    }
    if (split.etp > 0 && block->ffn % split.etp != 0) {
      return Misfit{"etp", fmt::format("{} does not divide the {} feed-forward width of {}",
                                       split.etp, block->ffn, layer.name)};
    }
  }
  if (any) return std::nullopt;
  const char* key = split.ep > 1 ? "ep" : split.etp > 0 ? "etp" : "expert_load";
  return Misfit{key, "the model has no experts"};
}

}  // namespace

LayerShape shard(const LayerShape& shape, const Split& split) {
  LayerShape part =
      std::visit([&](const auto& s) -> LayerShape { return kinds::shard(s, split.tp); }, shape);
  // Experts go by degrees of their own.
  if (auto* block = std::get_if<TransformerShape>(&part); block != nullptr && block->experts > 1) {
    block->expert_parts = split.ep;
    block->expert_load = split.expert_load;
    block->expert_share = split.expert_share();
    block->ffn = std::get<TransformerShape>(shape).ffn / split.expert_tp();
  }
  return part;
}

std::optional<Misfit> cannot_split(const Model& model, std::int64_t seq_length,
                                   const Split& split) {
  if (split.sequence_parallel && split.tp == 1) {
    return Misfit{"sequence_parallel",
                  "expected tp above 1: it divides tokens among the tensor-parallel devices"};
  }
  if (auto misfit = experts_misfit(model, split)) return misfit;
  // An undivided layer may be known by its times alone.
  if (split.tp == 1 && split.cp == 1 && split.slices == 1) return std::nullopt;
  if (split.cp > 1 && split.slices > 1)
    return Misfit{"slices", "expected cp = 1: its devices divide every sequence already"};
  for (const Layer& layer : model.layers) {
    if (auto misfit = misfit_of(layer, split)) return misfit;
  }
  if (seq_length % split.cp != 0) {
    return Misfit{
        "cp", fmt::format("{} does not divide the {} tokens of a sample", split.cp, seq_length)};
  }
  if (seq_length % split.slices != 0) {
    return Misfit{"slices", fmt::format("{} does not divide the {} tokens of a sample",
                                        split.slices, seq_length)};
  }
  // Of the tokens that context parallelism leaves.
  if (split.sequence_parallel && split.tokens(seq_length) % split.tp != 0) {
    return Misfit{"sequence_parallel",
                  fmt::format("tp = {} does not divide the {} tokens of a device", split.tp,
                              split.tokens(seq_length))};
  }
  return std::nullopt;
}

}  // namespace weir
