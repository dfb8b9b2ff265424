// What one device holds and sends of a model, layer by layer.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/model_part.hpp"

#include <map>
#include <set>
#include <string>
#include <variant>

namespace weir {
namespace {

// The first block of a T5 stack makes the bias of all its blocks' scores, and each hands it on with
// its output, the mask added: for each sample heads x queries x keys (Hugging Face's T5Attention
// and T5Stack).
std::int64_t position_bias(const Model& model, int layer, std::int64_t seq_length, Dtype dtype,
                           const Split& split) {
  const auto block = [&](int l) {
    return l < static_cast<int>(model.layers.size())
               ? std::get_if<TransformerShape>(&model.layers[static_cast<std::size_t>(l)].shape)
               : nullptr;
  };
  const TransformerShape* reader = block(layer + 1);
  if (reader == nullptr || reader->relative_buckets > 0) return 0;
  for (int l = layer; l >= 0 && block(l) != nullptr; --l) {
    if (block(l)->relative_buckets == 0) continue;
    return reader->heads / split.tp * split.tokens(seq_length) * seq_length *
           bytes_per_element(dtype);
  }
  return 0;
}

bool is_block(const Layer& layer) {
  return !std::holds_alternative<EmbeddingShape>(layer.shape) &&
         !std::holds_alternative<NormShape>(layer.shape) &&
         !std::holds_alternative<HeadShape>(layer.shape);
}

std::int64_t skipped_past(const Model& model, int layer, const ModelPart& part) {
  std::int64_t bytes = 0;
  std::set<std::int32_t> whole;  // outputs that cross whole, once each
  for (const Skip& skip : model.skips) {
    if (skip.from >= layer || skip.to <= layer) continue;
    if (skip.bytes) {
      bytes += skip.bytes->count();
    } else if (whole.insert(skip.from).second) {
      bytes += part.layer(skip.from).tensors.output_bytes_per_sample;
    }
  }
  return bytes;
}

// Finds the uses of one weight by the name of their tie, the only place that reads it.
void tie_weights(ModelPart& part) {
  std::map<std::string, std::vector<ParameterId>> uses;
  for (int l = 0; l < static_cast<int>(part.layers.size()); ++l) {
    LayerPart& layer = part.layers[static_cast<std::size_t>(l)];
    for (const ParameterTensor& parameter : layer.tensors.parameters) {
      ParameterId id{l, static_cast<int>(layer.weights.size())};
      if (!parameter.tied_with.empty()) {
        auto& all = uses[parameter.tied_with];
        all.push_back(id);
        id = all.front();
      }
      layer.weights.push_back(id);
      layer.parameters += parameter.elements();
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
    part.layers.push_back({layer_tensors(layer, seq_length, dtype, split), {}, 0, is_block(layer)});
  for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) {
    part.layers[static_cast<std::size_t>(l)].crossing_bytes =
        part.layer(l).tensors.output_bytes_per_sample +
        position_bias(model, l, seq_length, dtype, split) + skipped_past(model, l, part);
  }
  tie_weights(part);
  return part;
}

}  // namespace weir
