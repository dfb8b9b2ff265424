// Read in torchtitan/models/llama3/__init__.py of pytorch/torchtitan@b5bcd76c6, and of v0.2.2 with
// its model/args.py and model/model.py.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/torchtitan/flavor.hpp"

#include <fmt/format.h>

#include "tools/jobs/job/export.hpp"
#include "tools/jobs/trainers/ask.hpp"

namespace weir {
namespace {

bool is_scaled(const RotaryAngles& angles) { return angles.scaling == RotaryScaling::llama3; }

}  // namespace

bool has_llamas_blocks(const Decoder& d, Trainer version) {
  const TransformerShape& b = d.block;
  const bool angles = is_scaled(b.angles) || b.angles.scaling == RotaryScaling::none;
  const bool norms = !b.qk_norm && b.pre_norm && !b.parallel && d.norm.epsilon == b.norm_epsilon;
  const bool plain = !b.qkv_bias && !b.output_bias && !b.mlp_bias && b.latent.key_value == 0 &&
                     b.head_dim * b.heads == b.hidden && d.first_blocks == 0;
  return is_llamas(b) && b.activation == Activation::silu && angles && norms && plain &&
         (!d.embedding.tied || version == Trainer::torchtitan);
}

std::string registry_flavor(const Decoder& d) {
  const TransformerShape& b = d.block;
  std::string rope = fmt::format(
      "        rope=ComplexRoPE.Config(\n            dim={},\n            max_context_length={},\n"
      "            theta={},\n            scaling=\"{}\",\n",
      b.head_dim, 131072, python_number(b.angles.theta), is_scaled(b.angles) ? "llama" : "none");
  if (is_scaled(b.angles)) {
    rope += fmt::format(
        "            scaling_factor={},\n            low_freq_factor={},\n"
        "            high_freq_factor={},\n            original_max_position_embeddings={},\n",
        python_number(b.angles.factor), python_number(b.angles.low_frequency),
        python_number(b.angles.high_frequency), b.angles.original_positions);
  }
  const std::string tied =
      d.embedding.tied ? "    model.enable_weight_tying = True\n"
                         "    model.tok_embeddings.param_init = llama3._EMBEDDING_SKIP_INIT\n"
                       : "";
  return fmt::format(
      "def weir_flavor(attn_backend, tp_gemm_backend=\"default\"):\n"
      "    \"\"\"The plan's model: llama3's debugmodel in sizes that no flavour has.\"\"\"\n"
      "    dim, vocabulary, norm_eps = {}, {}, {}\n"
      "    model = llama3.llama3_configs[\"debugmodel\"](attn_backend, tp_gemm_backend)\n"
      "    model.dim, model.vocab_size = dim, vocabulary\n"
      "    model.tok_embeddings.num_embeddings = vocabulary\n"
      "    model.tok_embeddings.embedding_dim = dim\n{}"
      "    model.lm_head.in_features, model.lm_head.out_features = dim, vocabulary\n"
      "    model.lm_head.param_init = llama3._output_linear_init(dim)\n"
      "    model.norm.normalized_shape, model.norm.eps = dim, norm_eps\n"
      "    model.layers = llama3._build_llama3_layers(\n"
      "        n_layers={},\n        dim=dim,\n        n_heads={},\n        n_kv_heads={},\n"
      "        hidden_dim={},\n{}        ),\n"
      "        attn_backend=attn_backend,\n        tp_gemm_backend=tp_gemm_backend,\n    )\n"
      "    for layer in model.layers:\n"
      "        layer.attention_norm.eps = layer.ffn_norm.eps = norm_eps\n"
      "    return model\n\n\n"
      "llama3.llama3_configs[\"{}\"] = weir_flavor\n\n\n",
      b.hidden, d.embedding.vocabulary, python_number(b.norm_epsilon), tied, d.blocks, b.heads,
      b.kv_heads, b.ffn, rope, kOwnFlavor);
}

std::string toml_flavor(const Decoder& d) {
  const TransformerShape& b = d.block;
  // Its width is rounded up to a multiple: of half the width that is wanted, to that width.
  const double half = static_cast<double>(b.ffn) / 2 / (8.0 / 3 * static_cast<double>(b.hidden));
  const RotaryAngles& a = b.angles;
  const std::int64_t positions = is_scaled(a) ? a.original_positions : 8192;
  return fmt::format(
      "\"\"\"Written by weir export: the plan's model as a flavour of llama3, which job.toml "
      "imports.\"\"\"\n"
      "from torchtitan.models.llama3 import llama3_args, TransformerModelArgs\n"
      "from torchtitan.models.llama3.model.args import RoPEScalingArgs\n\n"
      "llama3_args[\"{}\"] = TransformerModelArgs(\n"
      "    dim={},\n    n_layers={},\n    n_heads={},\n    n_kv_heads={},\n    vocab_size={},\n"
      "    # The feed-forward is one multiple wide.\n"
      "    multiple_of={},\n    ffn_dim_multiplier={},\n    norm_eps={},\n    rope_theta={},\n"
      "    # A factor of 1 scales nothing.\n"
      "    rope_scaling_args=RoPEScalingArgs(\n        scaling_factor={},\n"
      "        low_freq_factor={},\n        high_freq_factor={},\n"
      "        original_max_position_embeddings={},\n    ),\n)\n",
      kOwnFlavor, b.hidden, d.blocks, b.heads, b.kv_heads, d.embedding.vocabulary, b.ffn,
      python_number(half), python_number(b.norm_epsilon), python_number(a.theta),
      python_number(is_scaled(a) ? a.factor : 1), python_number(a.low_frequency),
      python_number(a.high_frequency), positions);
}

}  // namespace weir
