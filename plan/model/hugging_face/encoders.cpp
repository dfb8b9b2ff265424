// Encoders: BERT and ViT.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/model/hugging_face/families.hpp"
#include "plan/model/limits.hpp"

namespace weir {

namespace {

constexpr std::int64_t kLargestSide = 65'536;

HeadShape bare_pooler(std::int64_t hidden) {
  return {.hidden = hidden, .pooled = true, .first_token = true, .dense = HeadDense::pooler};
}

// What the class adds to the blocks. Without one the bare model with its pooler.
HeadShape bert_head(JsonObject& config, std::int64_t hidden, std::int64_t vocabulary) {
  const std::string name = architecture(config);
  if (name.empty() || name == "BertModel") return bare_pooler(hidden);
  if (name == "BertForMaskedLM") {
    return {.vocabulary = vocabulary,
            .hidden = hidden,
            .bias = true,
            .tied = config.boolean_or("tie_word_embeddings", true),
            .dense = HeadDense::transform};
  }
  if (name == "BertForSequenceClassification") {
    HeadShape head = bare_pooler(hidden);
    head.vocabulary = label_count(config);
    head.bias = true;
    return head;
  }
  if (name == "BertForTokenClassification") {
    return {.vocabulary = label_count(config), .hidden = hidden, .bias = true};
  }
  config.fail(
      "architectures",
      fmt::format("\"{}\": expected BertModel, BertForMaskedLM, BertForSequenceClassification "
                  "or BertForTokenClassification",
                  name.substr(0, 40)));
}

}  // namespace

// BERT: learned positions and segments, a norm after the embedding and after every sum,
// bidirectional.
Model bert_model(JsonObject& config) {
  for (const char* key : {"is_decoder", "add_cross_attention"}) require(config, key, false);
  if (const std::string kind = config.text_or("position_embedding_type", "absolute");
      kind != "absolute") {
    config.fail("position_embedding_type",
                fmt::format("\"{}\": expected absolute", kind.substr(0, 40)));
  }
  const BlockSizes sizes = block_sizes(config);
  const std::int64_t vocabulary = vocabulary_size(config);
  TransformerShape block = even_block(config, sizes);
  block.ffn = config.integer("intermediate_size", 1, kLargestSize);
  block.activation = activation(config, "hidden_act", "gelu");
  block.pre_norm = block.causal = false;
  block.norm_epsilon = config.number_or("layer_norm_eps", 1e-12, 1e-12, 1);
  block.attention_dropout = rate(config, "attention_probs_dropout_prob", 0.1);
  block.residual_dropout = rate(config, "hidden_dropout_prob", 0.1);
  HeadShape head = bert_head(config, sizes.hidden, vocabulary);
  head.activation = block.activation;
  head.norm_epsilon = block.norm_epsilon;
  Model model;
  model.max_positions = position_count(config);
  model.layers.push_back(
      {"embedding",
       EmbeddingShape{.vocabulary = vocabulary,
                      .hidden = sizes.hidden,
                      .positions = model.max_positions,
                      .token_types = config.integer_or("type_vocab_size", 2, 1, kLargestSize),
                      .norm = true,
                      .norm_epsilon = block.norm_epsilon,
                      .dropout = block.residual_dropout,
                      .tied = head.tied},
       ""});
  append_blocks(model, "block", block, sizes.blocks);
  // Without classes the pooler is the end.
  model.layers.push_back({head.vocabulary > 0 ? "head" : "pooler", head, ""});
  model.initializer_range = config.number_or("initializer_range", 0.02, 0, 10);
  return model;
}

// ViT: an image is its patches after a class token, whose last state the head reads; pre-norm
// blocks.
Model vit_model(JsonObject& config) {
  const std::string name = architecture(config);
  if (!name.empty() && name != "ViTModel" && name != "ViTForImageClassification") {
    config.fail(
        "architectures",
        fmt::format("\"{}\": expected ViTForImageClassification or ViTModel", name.substr(0, 40)));
  }
  const BlockSizes sizes = block_sizes(config);
  const std::int64_t image = config.integer("image_size", 1, kLargestSide);
  const std::int64_t side = config.integer("patch_size", 1, kLargestSide);
  if (side > image) config.fail("patch_size", fmt::format("exceeds image_size = {}", image));
  TransformerShape block = even_block(config, sizes);
  block.ffn = config.integer("intermediate_size", 1, kLargestSize);
  block.activation = activation(config, "hidden_act", "gelu");
  block.causal = false;
  block.qkv_bias = config.boolean_or("qkv_bias", true);
  block.norm_epsilon = config.number_or("layer_norm_eps", 1e-12, 1e-12, 1);
  block.attention_dropout = rate(config, "attention_probs_dropout_prob", 0);
  block.residual_dropout = rate(config, "hidden_dropout_prob", 0);
  const std::int64_t channels = config.integer_or("num_channels", 3, 1, kLargestSide);
  Model model;
  // One position a patch and one for the class token; what a side leaves over is cut off.
  model.max_positions = (image / side) * (image / side) + 1;
  model.layers.push_back({"embedding",
                          EmbeddingShape{.hidden = sizes.hidden,
                                         .positions = model.max_positions,
                                         .dropout = block.residual_dropout,
                                         .patch = channels * side * side,
                                         .patch_side = side,
                                         .image = {channels, image, image}},
                          ""});
  append_blocks(model, "block", block, sizes.blocks);
  model.layers.push_back(
      {"norm", NormShape{sizes.hidden, NormKind::layer_norm, block.norm_epsilon}, ""});
  // A file that names no class is taken to classify.
  if (name == "ViTModel") {
    model.layers.push_back({"pooler", bare_pooler(sizes.hidden), ""});
  } else {
    const HeadShape head{.vocabulary = label_count(config),
                         .hidden = sizes.hidden,
                         .bias = true,
                         .pooled = true,
                         .first_token = true};
    model.layers.push_back({"head", head, ""});
  }
  model.initializer_range = config.number_or("initializer_range", 0.02, 0, 10);
  return model;
}

}  // namespace weir
