// A model in Megatron-LM's arguments.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "tools/jobs/megatron/export/export.hpp"
#include "tools/jobs/megatron/export/export_blocks.hpp"

namespace weir {
namespace {

// Its inner norms are there with --qk-layernorm alone. What is not turned of a head is its width as
// Megatron counts it, as the heads' width need not divide hidden.
void add_latent_attention(MegatronArguments& s, const TransformerShape& b) {
  const std::int64_t unturned = b.head_dim - b.latent.rotary;
  s.add("kv-channels", unturned);
  s.add("multi-latent-attention");
  if (b.latent.query > 0) s.add("q-lora-rank", b.latent.query);
  s.add("kv-lora-rank", b.latent.key_value);
  s.add("qk-head-dim", unturned);
  s.add("qk-pos-emb-head-dim", b.latent.rotary);
  s.add("v-head-dim", b.latent.value);
  s.add("qk-layernorm");
}

void add_attention(MegatronArguments& s, const TransformerShape& b) {
  s.add("num-attention-heads", b.heads);
  if (b.latent.key_value > 0) return add_latent_attention(s, b);
  s.add("kv-channels", b.head_dim);
  if (b.kv_heads != b.heads) {
    s.add("group-query-attention");
    s.add("num-query-groups", b.kv_heads);
  }
  if (b.qk_norm) s.add("qk-layernorm");
}

// A bias kept for balance goes with scores that are sigmoids alone, and these with weights of the
// experts' that are scaled.
void add_router_bias(MegatronArguments& s, std::vector<Remark>& remarks) {
  s.add("moe-router-enable-expert-bias");
  s.add("moe-router-score-function", "sigmoid");
  remarks.push_back({"model",
                     "what scales the experts' weights (routed_scaling_factor) is in no plan: "
                     "--moe-router-topk-scaling-factor says it there"});
}

void add_experts(MegatronArguments& s, const MegatronBlocks& blocks, std::vector<Remark>& remarks) {
  const TransformerShape& b = blocks.decoder.block;
  if (b.experts == 1) return;
  s.add("num-experts", b.experts);
  s.add("moe-router-topk", b.experts_per_token);
  if (blocks.dense_ffn > 0) {
    s.add("moe-layer-freq", layer_frequencies(blocks.sparse));
    s.add("moe-ffn-hidden-size", b.ffn);
  }
  if (b.expert_groups > 0) {
    s.add("moe-router-num-groups", b.expert_groups);
    s.add("moe-router-group-topk", b.groups_per_token);
  }
  if (b.shared_ffn > 0) s.add("moe-shared-expert-intermediate-size", b.shared_ffn);
  if (b.shared_gate) s.add("moe-shared-expert-gate");
  if (b.router_bias && !b.mlp_bias) add_router_bias(s, remarks);
}

void add_biases(MegatronArguments& s, const TransformerShape& b, std::vector<Remark>& remarks) {
  const bool biases = b.output_bias && b.mlp_bias;
  if (!biases) s.add("disable-bias-linear");
  if (b.qkv_bias && !biases) s.add("add-qkv-bias");
  if (b.output_bias != b.mlp_bias || (biases && !b.qkv_bias)) {
    remarks.push_back({"model", "biases of attention and MLP go together there"});
  }
  if (b.experts > 1 && biases && !b.router_bias)
    remarks.push_back({"model", "the experts' router has a bias there too"});
}

void add_block(MegatronArguments& s, const MegatronBlocks& blocks, std::vector<Remark>& remarks) {
  const TransformerShape& b = blocks.decoder.block;
  s.add("num-layers", blocks.decoder.blocks);
  s.add("hidden-size", b.hidden);
  s.add("ffn-hidden-size", blocks.dense_ffn > 0 ? blocks.dense_ffn : b.ffn);
  add_attention(s, b);
  add_experts(s, blocks, remarks);
  if (b.gated) s.add("swiglu");
  if (b.activation == Activation::relu) {
    remarks.push_back(
        {"model", "ReLU has no argument there; --squared-relu is for a model with its square"});
  } else if (b.gated != (b.activation == Activation::silu)) {
    remarks.push_back(
        {"model", b.gated ? "the gate's activation is SiLU there: the model's GELU has no argument"
                          : "SiLU without a gate has no argument there"});
  }
  if (b.activation == Activation::gelu) s.add("no-bias-gelu-fusion");
  add_biases(s, b, remarks);
  if (!b.pre_norm || b.parallel || !b.causal) {
    remarks.push_back({"model", "blocks there are causal, norm first, attention before MLP"});
  }
}

// Latent attention turns as YaRN there: by a factor of 1 that is turning as it is.
void add_latent_rotary(MegatronArguments& s, const RotaryAngles& angles,
                       std::vector<Remark>& remarks) {
  const double base = std::round(angles.theta);
  s.add("rotary-base", static_cast<std::int64_t>(base));
  if (angles.scaling == RotaryScaling::none) s.add("rotary-scaling-factor", python_number(1));
  if (angles.scaling == RotaryScaling::other) {
    remarks.push_back({"model",
                       "rotary positions are scaled in a way of the model's own: where it is YaRN, "
                       "--rotary-scaling-factor, --mscale, --mscale-all-dim and "
                       "--original-max-position-embeddings say it there, and none is in a plan"});
  } else if (base != angles.theta || angles.scaling != RotaryScaling::none) {
    remarks.push_back({"model", "this base or scaling of rotary positions has no word there"});
  }
}

// Its base is a whole number there, and Llama 3.1's scaling that of its own frequencies alone.
void add_rotary(MegatronArguments& s, const TransformerShape& block, std::vector<Remark>& remarks) {
  const RotaryAngles& angles = block.angles;
  if (block.latent.key_value > 0) return add_latent_rotary(s, angles, remarks);
  const RotaryAngles llama{.theta = angles.theta,
                           .scaling = RotaryScaling::llama3,
                           .factor = angles.factor,
                           .original_positions = 8192};
  const double base = std::round(angles.theta), factor = std::round(angles.factor);
  s.add("rotary-base", static_cast<std::int64_t>(base));
  bool carried = base == angles.theta;
  if (angles.scaling == RotaryScaling::linear) {
    s.add("rotary-seq-len-interpolation-factor", static_cast<std::int64_t>(factor));
    carried = carried && factor == angles.factor;
  } else if (angles == llama) {
    s.add("use-rope-scaling");
    s.add("rope-scaling-factor", python_number(angles.factor));
  } else {
    carried = carried && angles.scaling == RotaryScaling::none;
  }
  if (!carried)
    remarks.push_back(
        {"model", angles.scaling == RotaryScaling::other
                      ? "rotary positions are scaled in a way of the model's own, as "
                        "YaRN is: --use-rope-scaling there is Llama 3.1's alone"
                      : "this base or scaling of rotary positions has no word there"});
}

}  // namespace

void add_megatron_model(const ResolvedPlan& loaded, MegatronArguments& s,
                        std::vector<Remark>& remarks) {
  const MegatronBlocks blocks = megatron_blocks(loaded);
  const Decoder& d = blocks.decoder;
  add_block(s, blocks, remarks);
  s.add("normalization", d.block.norm == NormKind::rms_norm ? "RMSNorm" : "LayerNorm");
  s.add("norm-epsilon", python_number(d.block.norm_epsilon));
  s.add("attention-dropout", python_number(d.block.attention_dropout));
  s.add("hidden-dropout", python_number(d.block.residual_dropout));
  if (d.embedding.dropout != d.block.residual_dropout) {
    remarks.push_back({"model", "the embedding's dropout is that of the blocks there"});
  }
  if (d.norm.epsilon != d.block.norm_epsilon || d.norm.kind != d.block.norm) {
    remarks.push_back({"model", "the final norm is as those of the blocks there"});
  }
  s.add("max-position-embeddings",
        d.embedding.positions > 0 ? d.embedding.positions : loaded.plan.seq_length);
  s.add("position-embedding-type", d.embedding.positions > 0 ? "learned_absolute"
                                   : d.block.rotary          ? "rope"
                                                             : "none");
  if (d.embedding.positions == 0 && !d.block.rotary) {
    remarks.push_back({"model",
                       "has no positions, none in the arguments: one with a bias on its scores "
                       "(alibi) needs its position-embedding-type"});
  }
  if (d.block.rotary) add_rotary(s, d.block, remarks);
  if (d.embedding.positions > 0 && d.block.rotary) {
    remarks.push_back({"model", "learned and rotary positions exclude each other there"});
  }
  if (d.embedding.norm) s.add("embed-layernorm");
  if (d.embedding.token_types > 0 || d.head.bias) {
    remarks.push_back({"model", "token types and a bias of the head have no argument there"});
  }
  if (!d.embedding.tied) s.add("untie-embeddings-and-output-weights");
  s.add("vocab-size", d.embedding.vocabulary);
  const bool usual = d.embedding.vocabulary % (std::int64_t{128} * loaded.plan.tp) == 0;
  s.add("make-vocab-size-divisible-by", usual ? 128 : 1);
  if (d.embedding.vocabulary % loaded.plan.tp != 0) {
    remarks.push_back({"model", fmt::format("the vocabulary is padded to a multiple of tp {} there",
                                            loaded.plan.tp)});
  }
  s.add("init-method-std", python_number(loaded.model.initializer_range));
}

}  // namespace weir
