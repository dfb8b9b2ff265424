// T5, encoder and decoder.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/model/hugging_face/families.hpp"
#include "plan/model/limits.hpp"

namespace weir {

namespace {

constexpr std::int64_t kTrainedLength =
    512;  // tokens T5 was trained on; its positions are relative and have no end

// "relu", "gated-gelu": the MLP's activation, and whether a second product gates it.
void read_feed_forward(JsonObject& config, TransformerShape& block) {
  constexpr std::string_view kKey = "feed_forward_proj", kGated = "gated-";
  std::string name = config.text_or(kKey, "relu");
  block.gated = name.starts_with(kGated);
  if (block.gated) name.erase(0, kGated.size());
  if (block.gated && name == "gelu")
    name = "gelu_new";  // so the class reads it, for its first checkpoints
  block.activation = parse_activation(config, kKey, name);
}

TransformerShape t5_block(JsonObject& config) {
  TransformerShape block{.hidden = config.integer("d_model", 1, kLargestSize),
                         .heads = config.integer("num_heads", 1, kLargestSize)};
  block.kv_heads = block.heads;
  block.head_dim = config.integer_or("d_kv", 64, 1, kLargestSize);
  block.ffn = config.integer("d_ff", 1, kLargestSize);
  read_feed_forward(config, block);
  block.norm = NormKind::rms_norm;
  block.qkv_bias = block.output_bias = block.mlp_bias = false;
  block.norm_epsilon = config.number_or("layer_norm_epsilon", 1e-6, 1e-12, 1);
  block.attention_dropout = block.residual_dropout = rate(config, "dropout_rate", 0.1);
  return block;
}

// Only the first block of a stack has the table of relative positions.
void append_stack(Model& model, const std::string& name, TransformerShape block,
                  std::int64_t blocks, std::int64_t buckets) {
  block.relative_buckets = buckets;
  model.layers.push_back({name + ".block.0", block, ""});
  block.relative_buckets = 0;
  for (std::int64_t i = 1; i < blocks; ++i)
    model.layers.push_back({fmt::format("{}.block.{}", name, i), block, ""});
  model.layers.push_back(
      {name + ".norm", NormShape{block.hidden, block.norm, block.norm_epsilon}, ""});
}

}  // namespace

// T5: an encoder, and a decoder whose every block also attends to what the encoder gave; one token
// table for both and, unless said otherwise, for the head. Inputs and targets have one length.
Model t5_model(JsonObject& config) {
  const std::string name = architecture(config);
  if (!name.empty() && name != "T5ForConditionalGeneration" && name != "T5WithLMHeadModel") {
    config.fail("architectures",
                fmt::format("\"{}\": expected T5ForConditionalGeneration", name.substr(0, 40)));
  }
  TransformerShape block = t5_block(config);
  const std::int64_t encoders = config.integer("num_layers", 1, kMostLayers);
  const std::int64_t decoders = config.integer_or("num_decoder_layers", encoders, 1, kMostLayers);
  const std::int64_t buckets =
      config.integer_or("relative_attention_num_buckets", 32, 1, kLargestSize);
  EmbeddingShape embedding{.vocabulary = vocabulary_size(config),
                           .hidden = block.hidden,
                           .dropout = block.residual_dropout,
                           .tied = true};
  Model model;
  model.layers.push_back({"embedding", embedding, ""});
  block.causal = false;
  append_stack(model, "encoder", block, encoders, buckets);
  const auto encoded = static_cast<std::int32_t>(model.layers.size()) - 1;
  embedding.shared = true;
  model.layers.push_back({"decoder.embedding", embedding, ""});
  block.causal = block.cross_attention = true;
  append_stack(model, "decoder", block, decoders, buckets);
  // Behind the encoder's output stand the decoder's embedding and then its blocks.
  for (std::int32_t i = 0; i < decoders; ++i)
    model.skips.push_back({encoded, encoded + 2 + i, std::nullopt});
  const bool tied = config.boolean_or("tie_word_embeddings", true);
  model.layers.push_back(
      {"head", HeadShape{.vocabulary = embedding.vocabulary, .hidden = block.hidden, .tied = tied},
       ""});
  model.initializer_range = 0.02 * config.number_or("initializer_factor", 1, 0, 500);
  model.seq_length = config.integer_or("n_positions", kTrainedLength, 1, kLargestSize);
  return model;
}

}  // namespace weir
