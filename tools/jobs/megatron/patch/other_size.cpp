// Sizes by their arguments, compared.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/patch/other_size.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <variant>

namespace weir {
namespace {

std::string block_size(const TransformerShape& b, std::string_view argument) {
  const auto given = [](bool flag) { return std::string(flag ? "given" : "not given"); };
  if (argument == "hidden-size") return fmt::to_string(b.hidden);
  if (argument == "ffn-hidden-size") return fmt::to_string(b.ffn);
  if (argument == "kv-channels") return fmt::to_string(b.head_dim);
  if (argument == "num-attention-heads") return fmt::to_string(b.heads);
  if (argument == "num-query-groups") return fmt::to_string(b.kv_heads);
  if (argument == "num-experts") return fmt::to_string(b.experts);
  if (argument == "moe-router-topk") return fmt::to_string(b.experts_per_token);
  if (argument == "kv-lora-rank") return fmt::to_string(b.latent.key_value);
  if (argument == "swiglu") return given(b.gated);
  return b.rotary ? "rope" : "not rope";
}

}  // namespace

std::optional<OtherSize> other_size(const Model& script, const Model& plan) {
  constexpr std::array<std::string_view, 10> kSizes{"hidden-size",      "ffn-hidden-size",
                                                    "kv-channels",      "num-attention-heads",
                                                    "num-query-groups", "num-experts",
                                                    "moe-router-topk",  "kv-lora-rank",
                                                    "swiglu",           "position-embedding-type"};
  Model here = script, wanted = plan;
  for (Model* model : {&here, &wanted}) set_prediction(*model, 0);
  constexpr std::size_t kOthers = 3;  // embedding, norm and head
  if (here.layers.size() != wanted.layers.size())
    return OtherSize{"num-layers", fmt::to_string(here.layers.size() - kOthers),
                     fmt::to_string(wanted.layers.size() - kOthers)};
  for (std::size_t i = 0; i < here.layers.size(); ++i) {
    const auto* mine = std::get_if<TransformerShape>(&here.layers[i].shape);
    const auto* theirs = std::get_if<TransformerShape>(&wanted.layers[i].shape);
    if (mine == nullptr || theirs == nullptr) continue;
    for (const std::string_view name : kSizes) {
      OtherSize size{name, block_size(*mine, name), block_size(*theirs, name)};
      if (size.here != size.wanted) return size;
    }
  }
  return std::nullopt;
}

}  // namespace weir
