// Shares of a block by the numbers that its parts keep (NVIDIA/Megatron-LM@d98e8a64ddf3,
// megatron/core/transformer/transformer_config.py:1328-1342).
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/offload_modules.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "plan/model/layer_shape.hpp"

namespace weir {
namespace {

// Numbers of 16 bits for each token, which a part of a block keeps: its input.
struct OffloadModule {
  std::string_view name;
  double (*numbers)(const TransformerShape&);
};

double visits(const TransformerShape& b) {
  return b.experts > 1 ? static_cast<double>(b.hidden * b.experts_per_token) : 0;
}
double up(const TransformerShape& b) {
  const std::int64_t visited = b.experts > 1 ? b.experts_per_token : 1;
  return static_cast<double>((b.gated ? 2 : 1) * (b.ffn * visited + b.shared_ffn));
}
double hidden(const TransformerShape& b) { return static_cast<double>(b.hidden); }
double queries_keys_values(const TransformerShape& b) {
  return static_cast<double>(b.head_dim * (b.heads + b.kv_heads) + value_dim(b) * b.kv_heads);
}
double context(const TransformerShape& b) { return static_cast<double>(b.heads * value_dim(b)); }

constexpr std::array<OffloadModule, 7> kModules{
    {{"attn_norm", hidden},
     {"qkv_linear", hidden},
     {"core_attn", queries_keys_values},
     {"attn_proj", context},
     {"mlp_norm", hidden},
     {"expert_fc1", visits},
     {"moe_act", [](const TransformerShape& b) { return b.experts > 1 ? up(b) : 0; }}}};

// All that a block keeps: those, and of its MLP the rest, the second product's input, and in a
// dense one the first one's input and result too.
double kept(const TransformerShape& b) {
  double all = up(b) / (b.gated ? 2 : 1);
  if (b.experts == 1) all += hidden(b) + up(b);
  for (const OffloadModule& module : kModules) all += module.numbers(b);
  return all;
}

const TransformerShape* first_block(const Model& model) {
  for (const Layer& layer : model.layers) {
    if (const auto* block = std::get_if<TransformerShape>(&layer.shape)) return block;
  }
  return nullptr;
}

}  // namespace

std::optional<double> offloaded_share(std::string_view module, const Model& model) {
  const auto known = std::ranges::find(kModules, module, &OffloadModule::name);
  const TransformerShape* block = first_block(model);
  if (known == kModules.end() || block == nullptr) return std::nullopt;
  return known->numbers(*block) / kept(*block);
}

double offloadable_share(const Model& model) {
  const TransformerShape* block = first_block(model);
  if (block == nullptr) return 0;
  double all = 0;
  for (const OffloadModule& module : kModules) all += module.numbers(*block);
  return all / kept(*block);
}

std::string offload_modules(const Model& model) {
  const TransformerShape* block = first_block(model);
  std::string names;
  for (const OffloadModule& module : kModules) {
    if (block == nullptr || module.numbers(*block) == 0) continue;
    names += (names.empty() ? "" : " ") + std::string(module.name);
  }
  return names;
}

}  // namespace weir
