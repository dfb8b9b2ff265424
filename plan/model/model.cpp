// Names and sizes of layers.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/model.hpp"

#include <algorithm>

#include "plan/model/layer_kinds.hpp"

namespace weir {
namespace {

struct Kind {
  const Layer& layer;
  std::string operator()(const EmbeddingShape&) const { return "embedding"; }
  std::string operator()(const TransformerShape&) const { return "transformer"; }
  std::string operator()(const NormShape&) const { return "norm"; }
  std::string operator()(const HeadShape&) const { return "head"; }
  std::string operator()(const CellShape&) const { return layer.label; }
  std::string operator()(const TimedShape&) const { return layer.label; }
  std::string operator()(const SizedShape&) const { return layer.label; }
};

}  // namespace

void set_attention(Model& model, AttentionKind kind) {
  for (Layer& layer : model.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape)) block->attention = kind;
  }
}

void set_trained(Model& model, const Adapters& adapters, const std::vector<LayerRange>& frozen) {
  bool backward = false;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    Layer& layer = model.layers[l];
    Treatment& treated = layer.treated;
    const auto has = [l](const LayerRange& range) { return range.has(static_cast<int>(l)); };
    treated.frozen = adapters.rank > 0 || std::ranges::any_of(frozen, has);
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    const bool adapts = block != nullptr && !adapters_of(*block, adapters, 1, 1).empty();
    treated.adapters = adapts ? adapters : Adapters{};
    // Gradients go back as far as the first thing that is trained (docs/theory.md 5.10).
    backward = backward || treated.trains();
    treated.backward = backward;
  }
}

void set_fp8(Model& model, Fp8Recipe recipe) {
  for (Layer& layer : model.layers) {
    const bool block = std::holds_alternative<TransformerShape>(layer.shape);
    layer.treated.fp8 = block ? recipe : Fp8Recipe::none;
  }
}

std::string kind_name(const Layer& layer) { return std::visit(Kind{layer}, layer.shape); }

std::int64_t parameter_count(const Layer& layer) {
  return std::visit([](const auto& shape) { return kinds::parameter_count(shape); }, layer.shape);
}

bool has_experts(const Model& model) {
  return std::ranges::any_of(model.layers, [](const Layer& layer) {
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    return block != nullptr && block->experts > 1;
  });
}

std::int64_t parameter_count(const Model& model) {
  std::int64_t total = 0;
  for (const Layer& layer : model.layers) total += parameter_count(layer);
  return total;
}

}  // namespace weir
