// A model is a sequence of layers; a stage boundary may fall between any two of them.
//
// A layer either has a shape (embedding, transformer block, norm, head), from which FLOPs, bytes
// and kernels follow, or it is *sized*: it says its own FLOPs and bytes, or *timed*: it says its
// own times and bytes, and nothing else is known of it. Layer kinds are values, not classes: adding
// one means an alternative in `LayerShape`, its tensors in plan/model/layer_tensors, its FLOPs in
// costmodel/layers/layer_math, and its kernels in each backend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plan/words/units.hpp"

namespace weir {

// How a block's attention is computed: product by product with its probabilities kept for the
// backward, or in tiles by one kernel that keeps of them only the log-sum-exp of each row, and a
// backward that makes the tiles again (FlashAttention: Dao et al., NeurIPS 2022). A property of the
// plan; it stands in the shape because it decides what the block keeps and how long it takes. Named
// as Megatron's --attention-backend names both.
enum class AttentionKind : std::uint8_t { unfused, fused };

[[nodiscard]] std::string_view to_string(AttentionKind kind);
// unfused or fused; also flash, which is fused by another library.
[[nodiscard]] std::optional<AttentionKind> parse_attention_kind(std::string_view text);

enum class NormKind : std::uint8_t { layer_norm, rms_norm };
enum class Activation : std::uint8_t { gelu, gelu_tanh, relu, silu };

// Token (and, where `positions` > 0, learned position) embedding: ids[b, s] -> x[b, s, hidden].
// With `patch` > 0 the samples are images: s - 1 patches, each projected to hidden with a bias,
// after a learned class token (ViT).
struct EmbeddingShape {
  std::int64_t vocabulary = 0;
  std::int64_t hidden = 0;
  std::int64_t positions = 0;    // rows of the learned position table; 0: none
  std::int64_t token_types = 0;  // BERT's segment table; 0: none
  bool norm = false;             // BERT normalises the sum
  double dropout = 0;
  bool tied = false;       // the token table is shared with the head (T5: with the decoder)
  bool shared = false;     // the token table is the first layer's (T5's decoder), which counts it
  std::int64_t patch = 0;  // values of a patch, channels x side^2; 0: tokens
};

// Pre- or post-norm transformer block: attention and MLP with residuals, x[b, s, hidden] -> same.
struct TransformerShape {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // = heads without grouped-query attention
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t experts = 1;            // 1: dense
  std::int64_t experts_per_token = 1;  //
  Activation activation = Activation::gelu_tanh;
  NormKind norm = NormKind::layer_norm;
  bool pre_norm = true;
  bool gated = false;                 // three MLP matrices instead of two
  bool qkv_bias = true;               //
  bool output_bias = true;            // of the attention's output projection
  bool mlp_bias = true;               //
  bool causal = true;                 //
  bool rotary = false;                // rotary position embedding
  bool parallel = false;              // GPT-NeoX: attention and MLP read the same input
  bool cross_attention = false;       // T5 decoder
  std::int64_t relative_buckets = 0;  // T5's relative position table (first block of a stack only)
  double norm_epsilon = 1e-5;
  double attention_dropout = 0;
  double residual_dropout = 0;
  AttentionKind attention = AttentionKind::unfused;
};

// Norm over hidden, x[b, s, hidden] -> same.
struct NormShape {
  std::int64_t hidden = 0;
  NormKind kind = NormKind::layer_norm;
  double epsilon = 1e-5;
};

// What stands between the blocks and a head's projection: BERT's pooler (hidden x hidden and tanh,
// of one position), or its masked language model's transform (hidden x hidden, activation and norm,
// of every position).
enum class HeadDense : std::uint8_t { none, pooler, transform };

// Projection to classes and mean cross-entropy: x[b, s, hidden] -> loss.
struct HeadShape {
  std::int64_t vocabulary = 0;  // 0: no projection, a bare model's pooler
  std::int64_t hidden = 0;
  bool bias = false;
  bool tied = false;    // uses the embedding's token table
  bool pooled = false;  // one position a sample (ViT, classifiers) instead of every position
  HeadDense dense = HeadDense::none;
};

// A layer of which only times and bytes are known, for one sample.
struct TimedShape {
  Seconds forward{0};
  Seconds backward_input{0};
  Seconds backward_weight{0};
  std::int64_t parameters = 0;
  Bytes activation{0};  // kept from F to the end of W
  Bytes boundary{0};    // output
};

// A layer known by its sizes, for one sample, whatever it computes: what convolutional networks are
// made of (plan/model/cnn).
struct SizedShape {
  std::int64_t parameters = 0;
  Flops forward{0};
  std::int64_t input = 0;    // numbers it reads from the layer before
  bool keeps_input = false;  // until W: a convolution, a norm
  std::int64_t kept = 0;     // numbers kept from F to W beside the input
  std::int64_t output = 0;   // numbers
};

using LayerShape =
    std::variant<EmbeddingShape, TransformerShape, NormShape, HeadShape, TimedShape, SizedShape>;

struct Layer {
  std::string name;
  LayerShape shape;
  std::string label;  // what a timed or sized layer calls its kind ("conv"); empty otherwise
};

// An edge from an earlier layer's output to a later layer that is not its successor (U-Net, ResNet,
// T5's decoder).
struct Skip {
  std::int32_t from = 0;       // layer index
  std::int32_t to = 0;         // layer index, > from + 1
  std::optional<Bytes> bytes;  // per sample, the part of the output that goes on: a tensor of its
                               // own; none: all of it
};

struct Model {
  std::string name;
  std::string family;  // "gpt2", ...; "layers" for a layer list, "timed" for layers.csv, "cnn"
  std::vector<Layer> layers;
  std::vector<Skip> skips;
  std::int64_t seq_length = 0;      // default tokens a sample; 0 where samples are not sequences
  std::int64_t max_positions = 0;   // longest sequence the model accepts; 0: unbounded
  double initializer_range = 0.02;  // standard deviation of initial weights
  int ignored_keys = 0;             // keys of a Hugging Face config that mean nothing here
};

// All blocks compute their attention like this.
void set_attention(Model& model, AttentionKind kind);

// "embedding", "transformer", "norm", "head", or a timed or sized layer's own label.
[[nodiscard]] std::string kind_name(const Layer& layer);

// Learned numbers of one layer; a tied head counts none for its matrix, its embedding has it.
[[nodiscard]] std::int64_t parameter_count(const Layer& layer);
// Learned numbers of all layers, each tied weight once.
[[nodiscard]] std::int64_t parameter_count(const Model& model);

}  // namespace weir
