// The shapes of layers: what a kind of layer is told by, from which its tensors, FLOPs and kernels
// follow (plan/model/layer_kinds). `LayerShape` is the table of kinds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "plan/model/cell_shape.hpp"
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

// How the angles of rotary positions (Su et al. 2021) grow with the position: pair i of a head of d
// numbers turns by f_i = theta^(-2i/d) a token. Longer contexts are reached by slower turning:
// linear divides every f_i by `factor` (Chen et al. 2023); llama3 only those with wavelengths 2 pi
// / f_i above original_positions / low_frequency, leaves those below original_positions /
// high_frequency as they are, and goes evenly from one to the other between (Llama 3.1's
// rope_type "llama3"). `other` are the ways that can be forecast, not computed.
enum class RotaryScaling : std::uint8_t { none, linear, llama3, other };

struct RotaryAngles {
  double theta = 10000;
  RotaryScaling scaling = RotaryScaling::none;
  double factor = 1;
  double low_frequency = 1;
  double high_frequency = 4;
  std::int64_t original_positions = 0;
  bool operator==(const RotaryAngles&) const = default;
  auto operator<=>(const RotaryAngles&) const = default;
};

// Multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1): keys and values of
// all heads are made from one narrow vector a token, and queries from another where `query` is
// above 0. A head's query and key are `head_dim` wide, of which the last `rotary` numbers are
// turned by their position; those of the keys are one vector for all heads. Training makes keys and
// values whole.
struct LatentAttention {
  std::int64_t query = 0;      // width that queries are compressed to; 0: they are not
  std::int64_t key_value = 0;  // width that keys and values are compressed to; 0: no such attention
  std::int64_t rotary = 0;
  std::int64_t value = 0;  // numbers of a head's value
  bool operator==(const LatentAttention&) const = default;
};

// Token (and, where `positions` > 0, learned position) embedding: ids[b, s] -> x[b, s, hidden].
// With `patch` > 0 the samples are images: s - 1 patches, each projected to hidden with a bias,
// after a learned class token (ViT); what of the image is no whole patch is left out.
struct EmbeddingShape {
  std::int64_t vocabulary = 0;
  std::int64_t hidden = 0;
  std::int64_t positions = 0;    // rows of the learned position table; 0: none
  std::int64_t token_types = 0;  // BERT's segment table; 0: none
  bool norm = false;             // BERT normalises the sum
  double norm_epsilon = 1e-12;   // of that norm
  double dropout = 0;
  bool tied = false;       // the token table is shared with the head (T5: with the decoder)
  bool shared = false;     // the token table is the first layer's (T5's decoder), which counts it
  std::int64_t patch = 0;  // values of a patch, channels x side^2; 0: tokens
  std::int64_t patch_side = 0;   // with patches
  FeatureMap image = {};         // with patches
  double scale = 1;              // that tokens are multiplied by (Gemma)
  bool looked_up_again = false;  // the token table, by blocks that predict further tokens
  std::int64_t divided = 0;      // rows of the whole table, where every rank has a shard of it
  bool operator==(const EmbeddingShape&) const = default;
};

// A block that predicts a token further ahead (DeepSeek-AI, "DeepSeek-V3", 2024, section 2.2; the
// multi-token prediction of Megatron-Core): the token's embedding, from the model's own table, and
// what the model, or the block before, made of the tokens are normalised and projected together,
// 2 h to h; behind the block stands one norm more. What came in is handed on beside what it makes.
struct Prediction {
  std::int64_t ahead = 0;       // tokens beyond the next; 0: a block like any other
  std::int64_t vocabulary = 0;  // rows of the table
  std::int64_t projected = 0;  // numbers that the projection makes of a token: on a device its part
  bool operator==(const Prediction&) const = default;
};

// Pre- or post-norm transformer block: attention and MLP with residuals, x[b, s, hidden] -> same.
struct TransformerShape {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // = heads without grouped-query attention
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t experts = 1;            // 1: dense; else each `ffn` wide, behind a router
  std::int64_t experts_per_token = 1;  //
  std::int64_t expert_groups = 0;      // of equally many experts, side by side; a token's experts
  std::int64_t groups_per_token = 0;   // are all in so many of these groups; 0: wherever they are
  std::int64_t shared_ffn = 0;         // together, of experts that every token visits (no biases)
  bool shared_gate = false;            // weighs what those give by one product of the token
  std::int64_t expert_parts = 1;       // devices that share them, and what the fullest of these
  double expert_load = 1;              // has of the tokens over the mean: of a split's part
  double expert_share = 1;             // of the visits that a device has: below 1 of such a part
  bool router_bias = false;            // a number an expert: learned, or kept for balance
  bool router_pre_softmax = false;     // the weights of those visited are shares of all experts'
                                       // (softmax, then the top), not of theirs alone
  Activation activation = Activation::gelu_tanh;
  NormKind norm = NormKind::layer_norm;
  bool pre_norm = true;
  bool gated = false;                 // three MLP matrices instead of two
  bool qkv_bias = true;               //
  bool output_bias = true;            // of the attention's output projection
  bool mlp_bias = true;               //
  bool causal = true;                 //
  bool rotary = false;                // rotary position embedding of queries and keys
  RotaryAngles angles = {};           // of it
  bool qk_norm = false;               // RMS norms of each head's query and key (Qwen3)
  bool wide_qk_norm = false;          // those are of all heads together (MiniMax-M2)
  bool values_are_keys = false;       // before norms and turning: one product makes both (Gemma 4)
  bool parallel = false;              // GPT-NeoX: attention and MLP read the same input
  bool single_norm = false;           // of both, in a parallel block (Phi)
  bool post_norms = false;            // what attention and MLP give is normalised too (Gemma 2)
  bool sinks = false;                 // a learned score a head beside those of the keys (gpt-oss)
  std::int64_t window = 0;            // keys that a query sees, itself the last; 0: all
  LatentAttention latent = {};        //
  bool cross_attention = false;       // T5 decoder
  std::int64_t relative_buckets = 0;  // T5's relative position table (first block of a stack only)
  double norm_epsilon = 1e-5;
  double attention_dropout = 0;
  double residual_dropout = 0;
  AttentionKind attention = AttentionKind::unfused;
  Prediction prediction = {};  // made by a plan; no part of a model's file
  bool operator==(const TransformerShape&) const = default;
};

[[nodiscard]] constexpr bool predicts(const TransformerShape& block) {
  return block.prediction.ahead > 0;
}
// Numbers of its projection.
[[nodiscard]] constexpr std::int64_t prediction_projection(const TransformerShape& block) {
  return predicts(block) ? 2 * block.hidden * block.hidden : 0;
}

// Numbers of a head's value, and so of what the head gives.
[[nodiscard]] constexpr std::int64_t value_dim(const TransformerShape& block) {
  return block.latent.key_value > 0 ? block.latent.value : block.head_dim;
}
// Experts that a device has, and tokens that reach them of `tokens` of each device.
[[nodiscard]] constexpr std::int64_t local_experts(const TransformerShape& block) {
  return block.experts / block.expert_parts;
}
// Parts of one are counted as one.
[[nodiscard]] constexpr std::int64_t visits(const TransformerShape& block, std::int64_t tokens) {
  const double share = static_cast<double>(tokens * block.experts_per_token) * block.expert_share;
  const auto even = static_cast<std::int64_t>(share);
  if (block.expert_load == 1) return static_cast<double>(even) < share ? even + 1 : even;
  return static_cast<std::int64_t>(share * block.expert_load) + 1;
}
// Whether other devices hold them than hold the rest of the layer.
[[nodiscard]] constexpr bool experts_apart(const TransformerShape& block) {
  return block.expert_parts > 1 || block.expert_share < 1;
}
// Keys that a query of a sequence sees on average, twice: as many as there are tokens without a
// window, of w of s tokens w (2 - w / s).
[[nodiscard]] constexpr double keys_seen(const TransformerShape& block, double seq_length) {
  const auto window = static_cast<double>(block.window);
  if (block.window == 0 || window >= seq_length) return seq_length;
  return window * (2 - window / seq_length);
}

// Norm over hidden, x[b, s, hidden] -> same.
struct NormShape {
  std::int64_t hidden = 0;
  NormKind kind = NormKind::layer_norm;
  double epsilon = 1e-5;
  bool operator==(const NormShape&) const = default;
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
  bool tied = false;         // uses the embedding's token table
  bool pooled = false;       // one position a sample (ViT, classifiers) instead of every position
  bool first_token = false;  // pooled: that position is the first of many, not all there is
  HeadDense dense = HeadDense::none;
  std::int64_t places = 0;       // of a map, each a position with a target; 0: samples are tokens
  std::int64_t predictions = 0;  // further tokens, each with logits and a loss at every position
  Activation activation = Activation::gelu;  // of a transform
  double norm_epsilon = 1e-12;               // of a transform
  std::int64_t divided = 0;  // rows of the whole matrix, where every rank has a shard of it

  // Of a sample, that are projected and have a loss.
  [[nodiscard]] std::int64_t positions(std::int64_t seq_length) const {
    if (pooled) return 1;
    return places > 0 ? places : seq_length * (1 + predictions);
  }
  bool operator==(const HeadShape&) const = default;
};

// A layer of which only times and bytes are known, for one sample.
struct TimedShape {
  Seconds forward{0};
  Seconds backward_input{0};
  Seconds backward_weight{0};
  std::int64_t parameters = 0;
  Bytes activation{0};  // kept from F to the end of W
  Bytes boundary{0};    // output
  bool operator==(const TimedShape&) const = default;
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
  bool operator==(const SizedShape&) const = default;
};

using LayerShape = std::variant<EmbeddingShape, TransformerShape, NormShape, HeadShape, CellShape,
                                TimedShape, SizedShape>;

}  // namespace weir
