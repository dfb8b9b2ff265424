// Asks a layer's kind for its tensors, on its part of a split, and leaves out what nothing needs
// where its weights are frozen.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/layer_tensors.hpp"

#include <algorithm>
#include <iterator>

#include "plan/model/layer_kinds.hpp"

namespace weir {
namespace {

// What only gradients of the layer's own weights read goes. A fused core reads what it gave again
// in its backward, and so does an adapter beside the product behind it.
void drop_for_weights(LayerTensors& t, const Layer& layer) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr) return;
  const bool adapted = layer.treated.adapters.rank > 0 && layer.treated.adapters.dropout == 0 &&
                       layer.treated.adapters.targets.has(BlockProduct::linear_proj);
  const bool fused = block->attention == AttentionKind::fused;
  for (KeptTensor& kept : t.saved) {
    if (kept.name.ends_with(".context") && fused && !adapted) kept.until = KeptUntil::I;
  }
  std::erase_if(t.saved, [adapted](const KeptTensor& kept) {
    const bool read = adapted && kept.name == "attention.context";
    return kept.until == KeptUntil::W && !read;
  });
}

void freeze(LayerTensors& t, const Layer& layer) {
  for (ParameterTensor& parameter : t.parameters) parameter.frozen = true;
  drop_for_weights(t, layer);
  if (std::holds_alternative<HeadShape>(layer.shape)) t.saves_input = false;
  // Adapters have a W, which reads what is carried.
  if (layer.treated.adapters.rank > 0) return;
  t.carried.clear();
  t.w_needs_output_gradient = false;
  t.workspace_w_bytes_per_sample = 0;
}

void keep_nothing(LayerTensors& t) {
  t.saved.clear();
  t.saves_input = false;
  t.workspace_i_bytes_per_sample = 0;
}

void add_adapters(LayerTensors& t, const Layer& layer, const Split& split) {
  const auto part = shard(layer.shape, split);
  for (const AdapterPart& adapter : adapters_of(
           std::get<TransformerShape>(part), layer.treated.adapters, split.tp, split.expert_tp())) {
    t.parameters.push_back({adapter.name + ".a",
                            {adapter.made, adapter.in},
                            ParameterTensor::Init::normal,
                            true,
                            "",
                            adapter.expert});
    t.parameters.push_back({adapter.name + ".b",
                            {adapter.out, adapter.rank},
                            ParameterTensor::Init::zeros,
                            true,
                            "",
                            adapter.expert});
  }
}

ModuleSet rebuilt_with(const AdapterPart& adapter) {
  if (adapter.name.starts_with("attention")) return {};
  if (adapter.name.starts_with("mlp.experts")) {
    ModuleSet modules(BlockModule::moe);
    if (adapter.input_divided) modules |= BlockModule::moe_act;
    return modules;
  }
  if (!adapter.name.starts_with("mlp.shared")) return BlockModule::mlp;
  ModuleSet modules(BlockModule::moe);
  modules |= BlockModule::shared_experts;
  return modules;
}

}  // namespace

std::vector<KeptTensor> kept_by_adapters(const Layer& layer, std::int64_t seq_length, Dtype dtype,
                                         const Split& split) {
  std::vector<KeptTensor> kept;
  const Adapters& adapters = layer.treated.adapters;
  if (adapters.rank == 0 || !layer.treated.backward) return kept;
  const auto part = shard(layer.shape, split);
  const auto& block = std::get<TransformerShape>(part);
  const std::int64_t all = split.tokens(seq_length), element = bytes_per_element(dtype);
  for (const AdapterPart& adapter : adapters_of(block, adapters, split.tp, split.expert_tp())) {
    const std::int64_t tokens = adapter.tokens == AdapterTokens::visits ? visits(block, all) : all;
    const ModuleSet rebuilt = rebuilt_with(adapter);
    kept.push_back(
        {adapter.name + ".made", tokens * adapter.rank * element, KeptUntil::W, rebuilt});
    if (adapters.dropout > 0) {
      kept.push_back(
          {adapter.name + ".dropped", tokens * adapter.in * (element + 1), KeptUntil::W, rebuilt});
      continue;
    }
    // The attention core keeps it for its own backward.
    if (adapter.beside == BlockProduct::linear_proj) continue;
    // Queries, keys and values are made of the same numbers.
    if (std::ranges::find(kept, adapter.reads, &KeptTensor::name) != kept.end()) continue;
    kept.push_back({adapter.reads, tokens * adapter.in * element, KeptUntil::W, rebuilt});
  }
  return kept;
}

namespace {

kinds::DeviceTokens device_tokens(std::int64_t seq_length, Dtype dtype, const Split& split) {
  return {split.tokens(seq_length), seq_length, split.rows(seq_length), bytes_per_element(dtype)};
}

}  // namespace

std::vector<KeptTensor> kept_by_prediction(const Layer& layer, std::int64_t seq_length, Dtype dtype,
                                           const Split& split) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr || !layer.treated.backward) return {};
  return kinds::kept_by_prediction(*block, device_tokens(seq_length, dtype, split));
}

LayerTensors layer_tensors(const Layer& layer, std::int64_t seq_length, Dtype dtype,
                           const Split& split) {
  const kinds::DeviceTokens tokens = device_tokens(seq_length, dtype, split);
  const auto tensors = [&](const LayerShape& shape) {
    return std::visit([&](const auto& s) { return kinds::tensors(s, tokens); }, shape);
  };
  const bool whole = split.tp == 1 && split.ep == 1 && split.expert_load == 1;
  LayerTensors t = whole ? tensors(layer.shape) : tensors(shard(layer.shape, split));
  if (!layer.treated.frozen) return t;
  freeze(t, layer);
  if (layer.treated.adapters.rank > 0) add_adapters(t, layer, split);
  std::ranges::copy(kept_by_adapters(layer, seq_length, dtype, split), std::back_inserter(t.saved));
  if (!layer.treated.backward) keep_nothing(t);
  return t;
}

}  // namespace weir
