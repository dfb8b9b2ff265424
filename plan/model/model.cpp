// Names and sizes of layers.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "plan/model/layer_kinds.hpp"

namespace weir {
namespace {

struct LayerKind {
  const Layer& layer;
  std::string operator()(const EmbeddingShape&) const { return "embedding"; }
  std::string operator()(const TransformerShape&) const { return "transformer"; }
  std::string operator()(const NormShape&) const { return "norm"; }
  std::string operator()(const HeadShape&) const { return "head"; }
  std::string operator()(const CellShape&) const { return layer.label; }
  std::string operator()(const TimedShape&) const { return layer.label; }
  std::string operator()(const SizedShape&) const { return layer.label; }
};

bool is_prediction(const Layer& layer) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  return block != nullptr && predicts(*block);
}

}  // namespace

std::optional<std::string> cannot_predict(const Model& model) {
  const std::size_t layers = model.layers.size();
  const auto* embedding =
      layers == 0 ? nullptr : std::get_if<EmbeddingShape>(&model.layers.front().shape);
  if (embedding == nullptr || embedding->patch > 0 || embedding->token_types > 0)
    return "the model has no table of tokens in front";
  // transformer_config.py and arguments.py of Megatron-LM, which have the same limit.
  if (embedding->positions > 0) return "the model has learned positions: rotary ones, or none";
  const auto* head = std::get_if<HeadShape>(&model.layers.back().shape);
  if (head == nullptr || head->vocabulary == 0 || head->pooled || head->dense != HeadDense::none)
    return "the model has no head of tokens behind";
  const auto last = std::find_if_not(model.layers.rbegin() + 1, model.layers.rend(), is_prediction);
  const bool ends = last != model.layers.rend() && std::next(last) != model.layers.rend() &&
                    std::holds_alternative<NormShape>(last->shape);
  const auto* block = ends ? std::get_if<TransformerShape>(&std::next(last)->shape) : nullptr;
  if (block == nullptr || !block->causal || block->cross_attention)
    return "the model does not end with a causal block and a norm";
  if (!model.skips.empty() || !model.stashes.empty()) return "the model has skips";
  return std::nullopt;
}

void set_prediction(Model& model, int layers) {
  std::erase_if(model.layers, is_prediction);
  if (model.layers.empty()) return;
  auto* embedding = std::get_if<EmbeddingShape>(&model.layers.front().shape);
  auto* head = std::get_if<HeadShape>(&model.layers.back().shape);
  if (embedding != nullptr) embedding->looked_up_again = false;
  if (head != nullptr) head->predictions = 0;
  if (layers == 0 || cannot_predict(model)) return;
  embedding->looked_up_again = true;
  head->predictions = layers;
  auto block = std::get<TransformerShape>(model.layers[model.layers.size() - 3].shape);
  block.prediction = {0, embedding->vocabulary, block.hidden};
  for (int l = 0; l < layers; ++l) {
    ++block.prediction.ahead;
    model.layers.insert(model.layers.end() - 1, {fmt::format("prediction.{}", l), block, ""});
  }
}

std::optional<std::string> cannot_divide_vocabulary(const Model& model) {
  const auto* embedding =
      model.layers.empty() ? nullptr : std::get_if<EmbeddingShape>(&model.layers.front().shape);
  if (embedding == nullptr || embedding->patch > 0 || embedding->shared)
    return "the model has no table of tokens in front";
  const auto* head = std::get_if<HeadShape>(&model.layers.back().shape);
  if (head == nullptr || head->vocabulary == 0 || head->pooled || head->dense != HeadDense::none)
    return "the model has no head of tokens behind";
  if (head->predictions > 0) return "the model predicts further tokens";
  if (!model.skips.empty() || !model.stashes.empty()) return "the model has skips";
  return std::nullopt;
}

void set_vocabulary(Model& model, int ranks) {
  if (cannot_divide_vocabulary(model)) return;
  std::vector<Layer>& layers = model.layers;
  if (auto& head = std::get<HeadShape>(layers.back().shape); head.divided > 0) {
    const auto shard = std::get<EmbeddingShape>(layers[layers.size() - 2].shape);
    auto& embedding = std::get<EmbeddingShape>(layers.front().shape);
    embedding.vocabulary = shard.divided;
    embedding.tied = shard.tied;
    head.vocabulary = std::exchange(head.divided, 0);
    layers.erase(layers.end() - 2);
  }
  if (ranks == 1) return;
  auto& head = std::get<HeadShape>(layers.back().shape);
  head.divided = std::exchange(head.vocabulary, ceil_div(head.vocabulary, ranks));
  auto& embedding = std::get<EmbeddingShape>(layers.front().shape);
  Layer tokens{layers.front().name + ".tokens",
               EmbeddingShape{.vocabulary = ceil_div(embedding.vocabulary, ranks),
                              .hidden = embedding.hidden,
                              .tied = std::exchange(embedding.tied, false),
                              .divided = std::exchange(embedding.vocabulary, 0)},
               "", layers.front().treated};
  layers.insert(layers.end() - 1, std::move(tokens));
}

int staged_layers(const Model& model) {
  const auto layers = static_cast<int>(model.layers.size());
  const auto* head = layers == 0 ? nullptr : std::get_if<HeadShape>(&model.layers.back().shape);
  return head != nullptr && head->divided > 0 ? layers - 2 : layers;
}

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

std::string kind_name(const Layer& layer) { return std::visit(LayerKind{layer}, layer.shape); }

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
