// The readers of Hugging Face families, and what they share. Each takes the config's top object and
// gives the model of the class that `architectures` names first, or of the family's usual one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "plan/model/model.hpp"
#include "plan/text/strict_json.hpp"

namespace weir {

// decoders.cpp
[[nodiscard]] Model gpt2_model(JsonObject& config);
[[nodiscard]] Model opt_model(JsonObject& config);
[[nodiscard]] Model gpt_neox_model(JsonObject& config);
// llama.cpp
[[nodiscard]] Model llama_model(JsonObject& config);
[[nodiscard]] Model mistral_model(JsonObject& config);
[[nodiscard]] Model mixtral_model(JsonObject& config);
[[nodiscard]] Model qwen2_model(JsonObject& config);
[[nodiscard]] Model qwen3_model(JsonObject& config);
// encoders.cpp
[[nodiscard]] Model bert_model(JsonObject& config);
[[nodiscard]] Model vit_model(JsonObject& config);
// t5.cpp
[[nodiscard]] Model t5_model(JsonObject& config);

// Keys by which most families name the same things. `heads` divides `hidden` unless said otherwise.
struct BlockSizes {
  std::int64_t hidden, heads, blocks;
};
[[nodiscard]] BlockSizes block_sizes(JsonObject& config);
// Layers "name.0", "name.1", ... of one shape.
void append_blocks(Model& model, std::string_view name, const TransformerShape& block,
                   std::int64_t count);
// A transformer block of these sizes, all heads alike.
[[nodiscard]] TransformerShape even_block(JsonObject& config, const BlockSizes& sizes);

[[nodiscard]] std::int64_t vocabulary_size(JsonObject& config);
[[nodiscard]] std::int64_t position_count(JsonObject& config);
// A dropout rate.
[[nodiscard]] double rate(JsonObject& config, std::string_view key, double otherwise);

// `name` is what the key holds, or part of it.
[[nodiscard]] Activation parse_activation(JsonObject& config, std::string_view key,
                                          const std::string& name);
[[nodiscard]] Activation activation(JsonObject& config, std::string_view key,
                                    std::string_view otherwise);

// The class named first; empty where none is.
[[nodiscard]] std::string architecture(JsonObject& config);
// That class must be the causal language model: other classes have other heads.
void require_causal_head(JsonObject& config);
// Classes of a classifier: as many as `id2label` has entries, else `num_labels`, else the library's
// two.
[[nodiscard]] std::int64_t label_count(JsonObject& config);
// Throws unless a key is absent, null, or what is modelled.
void require(JsonObject& config, std::string_view key, bool modelled);

}  // namespace weir
