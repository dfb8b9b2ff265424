// What one device holds and sends of a model, layer by layer.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/model_part.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "plan/model/alike_layers.hpp"

namespace weir {
namespace {

const TransformerShape* block_at(const Model& model, std::size_t layer) {
  return layer < model.layers.size() ? std::get_if<TransformerShape>(&model.layers[layer].shape)
                                     : nullptr;
}

// By layer. The first block of a T5 stack makes the bias of all its blocks' scores, and each hands
// it on with its output, the mask added: for each sample heads x queries x keys (Hugging Face's
// T5Attention and T5Stack).
std::vector<std::int64_t> position_biases(const Model& model, std::int64_t seq_length, Dtype dtype,
                                          const Split& split) {
  std::vector<std::int64_t> bytes(model.layers.size(), 0);
  bool made = false;  // by a block of the stack that layer l belongs to
  for (std::size_t l = 0; l < bytes.size(); ++l) {
    const TransformerShape *block = block_at(model, l), *reader = block_at(model, l + 1);
    made = block != nullptr && (made || block->relative_buckets > 0);
    if (!made || reader == nullptr || reader->relative_buckets > 0) continue;
    bytes[l] =
        reader->heads / split.tp * split.tokens(seq_length) * seq_length * bytes_per_element(dtype);
  }
  return bytes;
}

bool is_block(const Layer& layer) {
  return !std::holds_alternative<EmbeddingShape>(layer.shape) &&
         !std::holds_alternative<NormShape>(layer.shape) &&
         !std::holds_alternative<HeadShape>(layer.shape);
}

// By layer, what skips carry past it: from before it to behind it.
std::vector<std::int64_t> skipped_past(const Model& model, std::span<const LayerPart> kinds,
                                       const std::vector<int>& kind) {
  // What comes to be carried at a layer, less what ends there; their running sum is carried.
  std::vector<std::int64_t> bytes(kind.size() + 1, 0);
  const auto carry = [&bytes](std::int32_t from, std::int32_t to, std::int64_t tensor) {
    if (to <= from + 1) return;
    bytes[static_cast<std::size_t>(from) + 1] += tensor;
    bytes[static_cast<std::size_t>(to)] -= tensor;
  };
  std::map<std::int32_t, std::int32_t> whole;  // outputs that cross whole, once each: last reader
  for (const Skip& skip : model.skips) {
    if (skip.bytes) {
      carry(skip.from, skip.to, skip.bytes->count());
    } else {
      auto& last = whole.try_emplace(skip.from, skip.to).first->second;
      last = std::max(last, skip.to);
    }
  }
  for (const auto& [from, last] : whole) {
    const auto its = static_cast<std::size_t>(kind[static_cast<std::size_t>(from)]);
    carry(from, last, kinds[its].tensors.output_bytes_per_sample);
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  return bytes;
}

}  // namespace

// Routers and tables of positions are no such products, nor are adapters.
bool multiplies(const LayerPart& layer, const ParameterTensor& tensor) {
  const auto is_of = [&](std::string_view what) {
    return tensor.name.find(what) != std::string::npos;
  };
  return layer.block && tensor.decays && !is_of("router") && !is_of("relative") &&
         !is_of(".adapter.") && !is_of("prediction.token");
}

namespace {

void count_parameters(LayerPart& layer) {
  for (const ParameterTensor& parameter : layer.tensors.parameters) {
    layer.parameters += parameter.elements();
    if (parameter.expert) layer.expert_parameters += parameter.elements();
    if (multiplies(layer, parameter)) layer.products += parameter.elements();
    if (parameter.frozen) continue;
    layer.trained_parameters += parameter.elements();
    if (parameter.expert) layer.trained_expert_parameters += parameter.elements();
    if (!parameter.expert && multiplies(layer, parameter))
      layer.trained_products += parameter.elements();
  }
}

bool ties(const LayerPart& layer) {
  return std::ranges::any_of(layer.tensors.parameters, [](const ParameterTensor& parameter) {
    return !parameter.tied_with.empty();
  });
}

// Finds the uses of one weight by the name of their tie.
void tie_weights(ModelPart& part) {
  std::vector<bool> tied;
  for (const LayerPart& its : part.kinds) tied.push_back(ties(its));
  std::map<std::string, std::vector<ParameterId>> uses;
  for (int l = 0; l < part.size(); ++l) {
    if (!tied[static_cast<std::size_t>(part.kind_of(l))]) continue;
    int tensor = 0;
    for (const ParameterTensor& parameter : part.layer(l).tensors.parameters) {
      const ParameterId id{l, tensor++};
      if (!parameter.tied_with.empty()) uses[parameter.tied_with].push_back(id);
    }
  }
  for (auto& [name, all] : uses) {
    if (all.size() > 1) part.ties.push_back(std::move(all));
  }
}

}  // namespace

ParameterId ModelPart::weight(ParameterId use) const {
  if (parameter(use).tied_with.empty()) return use;
  for (const std::vector<ParameterId>& uses : ties) {
    if (std::ranges::binary_search(uses, use)) return uses.front();
  }
  return use;
}

ModelPart model_part(const Model& model, std::int64_t seq_length, Dtype dtype, const Split& split) {
  const AlikeLayers alike = alike_layers(model.layers);
  std::vector<LayerPart> made;  // by kind of layer, wherever it stands
  for (const int first : alike.first) {
    const Layer& layer = model.layers[static_cast<std::size_t>(first)];
    made.push_back({.tensors = layer_tensors(layer, seq_length, dtype, split),
                    .block = is_block(layer),
                    .backward = layer.treated.backward});
    count_parameters(made.back());
  }
  const auto biases = position_biases(model, seq_length, dtype, split);
  const auto skipped = skipped_past(model, made, alike.kind);
  ModelPart part;
  std::map<std::pair<int, std::int64_t>, int> known;  // by kind of layer and what crosses beside it
  for (int l = 0; l < static_cast<int>(alike.kind.size()); ++l) {
    const auto at = static_cast<std::size_t>(l);
    const std::int64_t beside = biases[at] + skipped[at];
    const auto [found, fresh] = known.try_emplace({alike.kind_of(l), beside}, part.kinds.size());
    if (fresh) {
      LayerPart& its = part.kinds.emplace_back(made[static_cast<std::size_t>(alike.kind_of(l))]);
      its.crossing_bytes = its.tensors.output_bytes_per_sample + beside;
      part.first.push_back(l);
    }
    const bool follows = l > 0 && part.kind.back() == found->second;
    if (!follows) part.runs.push_back({l, l});
    part.runs.back().last = l + 1;
    part.kind.push_back(found->second);
  }
  tie_weights(part);
  return part;
}

}  // namespace weir
