// Shares of blocks by the bytes that their parts keep, and what makes these again
// (NVIDIA/Megatron-LM@d98e8a64ddf3, megatron/core/transformer/transformer_config.py:1328-1342;
// moe/experts.py:928-941 of the routed experts alone). Bytes are those of the stack megatron-core
// (tools/examples/stacks), of undivided blocks with fused attention.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/offload_modules.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <variant>

#include "plan/model/block_modules.hpp"
#include "plan/model/layer_shape.hpp"

namespace weir {
namespace {

// Numbers for each token, which a part of a block keeps, which modules' selective
// re-materialisation drops them, and how many bytes each has, where products are in 8 bits too.
struct KeptPart {
  std::string_view module;  // whose input they are; empty: nobody may offload them
  double (*numbers)(const TransformerShape&);
  ModuleSet (*rebuilt_by)(const TransformerShape&);
  double bytes = 2, fp8 = bytes;
};

bool routed(const TransformerShape& b) { return b.experts > 1; }
bool latent(const TransformerShape& b) { return b.latent.key_value > 0; }
double as_number(std::int64_t numbers) { return static_cast<double>(numbers); }

double hidden(const TransformerShape& b) { return as_number(b.hidden); }
double queries_keys_values(const TransformerShape& b) {
  return as_number(b.head_dim * (b.heads + b.kv_heads) + value_dim(b) * b.kv_heads);
}
double context(const TransformerShape& b) { return as_number(b.heads * value_dim(b)); }
double visits(const TransformerShape& b) {
  return routed(b) ? as_number(b.hidden * b.experts_per_token) : 0;
}
double visited_up(const TransformerShape& b) {
  return routed(b) ? as_number((b.gated ? 2 : 1) * b.ffn * b.experts_per_token) : 0;
}
double shared_up(const TransformerShape& b) {
  return routed(b) ? as_number((b.gated ? 2 : 1) * b.shared_ffn) : 0;
}
double activated(const TransformerShape& b) {
  return routed(b) ? as_number(b.ffn * b.experts_per_token + b.shared_ffn) : 0;
}
double experts_normed(const TransformerShape& b) { return routed(b) ? hidden(b) : 0; }
double router_scores(const TransformerShape& b) { return routed(b) ? as_number(b.experts) : 0; }
// Without a gate the activation is kept once more before it is weighed.
double unweighed(const TransformerShape& b) { return b.gated ? 0 : activated(b); }
double dense_normed(const TransformerShape& b) { return routed(b) ? 0 : hidden(b); }
double dense_up(const TransformerShape& b) {
  return routed(b) ? 0 : as_number((b.gated ? 2 : 1) * b.ffn);
}
double dense_activated(const TransformerShape& b) { return routed(b) ? 0 : as_number(b.ffn); }
double statistics(const TransformerShape& /*block*/) { return 1; }
double row_statistics(const TransformerShape& b) { return as_number(b.heads); }
double dropped(const TransformerShape& b) { return b.residual_dropout > 0 ? hidden(b) : 0; }
// Before and behind their norms.
double latents(const TransformerShape& b) {
  return latent(b) ? as_number(2 * (b.latent.query + b.latent.key_value) + b.latent.rotary) : 0;
}

ModuleSet nothing(const TransformerShape& /*block*/) { return {}; }
ModuleSet norm_of_latents(const TransformerShape& b) {
  return latent(b) ? ModuleSet(BlockModule::layernorm) : ModuleSet();
}
ModuleSet up_from_latents(const TransformerShape& b) {
  return latent(b) ? ModuleSet(BlockModule::mla_up_proj) : ModuleSet();
}
ModuleSet experts(const TransformerShape& /*block*/) { return BlockModule::moe; }
ModuleSet experts_or_norm(const TransformerShape& /*block*/) {
  ModuleSet either = BlockModule::moe;
  either |= BlockModule::layernorm;
  return either;
}
ModuleSet experts_or_activation(const TransformerShape& /*block*/) {
  ModuleSet either = BlockModule::moe;
  either |= BlockModule::moe_act;
  return either;
}
ModuleSet mlp(const TransformerShape& /*block*/) { return BlockModule::mlp; }
ModuleSet core(const TransformerShape& /*block*/) { return BlockModule::core_attn; }

// The output's input is read by the core's backward in 16 bits, and by its product in 8.
constexpr std::array<KeptPart, 19> kParts{{{"attn_norm", hidden, nothing},
                                           {"qkv_linear", hidden, norm_of_latents, 2, 1},
                                           {"core_attn", queries_keys_values, up_from_latents},
                                           {"attn_proj", context, nothing, 2, 3},
                                           {"mlp_norm", hidden, nothing},
                                           {"expert_fc1", visits, experts, 2, 1},
                                           {"moe_act", visited_up, experts},
                                           {"", shared_up, experts},
                                           {"", unweighed, experts_or_activation},
                                           {"", activated, experts_or_activation, 2, 1},
                                           {"", experts_normed, experts_or_norm},
                                           {"", router_scores, experts, 18},
                                           {"", dense_normed, mlp, 2, 1},
                                           {"", dense_up, mlp},
                                           {"", dense_activated, mlp, 2, 1},
                                           {"", latents, nothing},
                                           {"", statistics, nothing, 8},
                                           {"", row_statistics, core, 4},
                                           {"", dropped, nothing}}};

double bytes_of(const KeptPart& part, Fp8Recipe fp8) {
  if (fp8 == Fp8Recipe::none || part.fp8 == part.bytes) return part.bytes;
  // A scale of 8 bits for 32 numbers, or of 32 bits for 128: as much for both.
  const bool scales = fp8 == Fp8Recipe::mxfp8 || fp8 == Fp8Recipe::blockwise;
  return part.fp8 + (scales ? 1.0 / 32 : 0);
}

// What all blocks of the model keep of a part.
double kept(const KeptPart& part, const Model& model, const Recompute& recompute) {
  const bool selective = recompute.mode == RecomputeMode::selective;
  double all = 0;
  for (const Layer& layer : model.layers) {
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block == nullptr) continue;
    if (selective && part.rebuilt_by(*block).meets(recompute.modules)) continue;
    all += part.numbers(*block) * bytes_of(part, layer.treated.fp8);
  }
  return all;
}

// Of all that blocks keep the share of those parts; 0 of a model without blocks.
template <class Chosen>
double share_of(const Model& model, const Recompute& recompute, const Chosen& chosen) {
  double all = 0, those = 0;
  for (const KeptPart& part : kParts) {
    const double its = kept(part, model, recompute);
    all += its;
    if (chosen(part)) those += its;
  }
  return all > 0 ? those / all : 0;
}

}  // namespace

bool is_offload_module(std::string_view word) {
  return !word.empty() && std::ranges::find(kParts, word, &KeptPart::module) != kParts.end();
}

double offloaded_share(const std::set<std::string, std::less<>>& modules, const Model& model,
                       const Recompute& recompute) {
  return share_of(model, recompute,
                  [&](const KeptPart& part) { return modules.contains(part.module); });
}

double offloadable_share(const Model& model, const Recompute& recompute) {
  return share_of(model, recompute, [](const KeptPart& part) { return !part.module.empty(); });
}

std::string offload_modules(const Model& model, const Recompute& recompute) {
  std::string names;
  for (const KeptPart& part : kParts) {
    // Megatron takes the output's input with the core's alone, also where that is made again.
    const bool needed = part.module == "core_attn";
    if (part.module.empty() || (!needed && kept(part, model, recompute) == 0)) continue;
    names += (names.empty() ? "" : " ") + std::string(part.module);
  }
  return names;
}

}  // namespace weir
