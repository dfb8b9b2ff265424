// What one device holds and sends of a model, layer by layer.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/model_part.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <variant>

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
std::vector<std::int64_t> skipped_past(const Model& model, const ModelPart& part) {
  // What comes to be carried at a layer, less what ends there; their running sum is carried.
  std::vector<std::int64_t> bytes(part.layers.size() + 1, 0);
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
  for (const auto& [from, last] : whole)
    carry(from, last, part.layer(from).tensors.output_bytes_per_sample);
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

// Finds the uses of one weight by the name of their tie, the only place that reads it.
void tie_weights(ModelPart& part) {
  std::map<std::string, std::vector<ParameterId>> uses;
  for (int l = 0; l < static_cast<int>(part.layers.size()); ++l) {
    LayerPart& layer = part.layers[static_cast<std::size_t>(l)];
    for (const ParameterTensor& parameter : layer.tensors.parameters) {
      ParameterId id{l, static_cast<int>(layer.weights.size())};
      // The first use gives the weight its number.
      if (!parameter.tied_with.empty()) {
        auto& all = uses[parameter.tied_with];
        all.push_back(id);
        id = all.front();
      }
      layer.weights.push_back(id);
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
  for (auto& [name, all] : uses) {
    if (all.size() > 1) part.ties.push_back(std::move(all));
  }
}

}  // namespace

ModelPart model_part(const Model& model, std::int64_t seq_length, Dtype dtype, const Split& split) {
  ModelPart part;
  for (const Layer& layer : model.layers)
    part.layers.push_back({.tensors = layer_tensors(layer, seq_length, dtype, split),
                           .block = is_block(layer),
                           .backward = layer.treated.backward});
  const auto biases = position_biases(model, seq_length, dtype, split);
  const auto skipped = skipped_past(model, part);
  for (std::size_t l = 0; l < part.layers.size(); ++l) {
    LayerPart& layer = part.layers[l];
    layer.crossing_bytes = layer.tensors.output_bytes_per_sample + biases[l] + skipped[l];
  }
  tie_weights(part);
  return part;
}

}  // namespace weir
