// Parts of a block that selective re-materialisation may make again in its backward, by the names
// that Megatron's --recompute-modules has for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

#include "plan/words/names.hpp"

namespace weir {

enum class BlockModule : std::uint8_t {
  core_attn,       // scores, probabilities and their product with the values
  layernorm,       // norms that are kernels of their own
  mla_up_proj,     // of latent attention: queries, keys and values out of their latents
  mlp,             // of a block without experts
  moe,             // router, exchanges and all experts
  moe_act,         // the activation of experts that tokens are sent to
  shared_experts,  // that every token visits
};
inline constexpr Names<BlockModule, 7> kBlockModules{
    {{BlockModule::core_attn, "core_attn"},
     {BlockModule::layernorm, "layernorm"},
     {BlockModule::mla_up_proj, "mla_up_proj"},
     {BlockModule::mlp, "mlp"},
     {BlockModule::moe, "moe"},
     {BlockModule::moe_act, "moe_act"},
     {BlockModule::shared_experts, "shared_experts"}}};

class ModuleSet {
 public:
  constexpr ModuleSet() = default;
  // Implicit: a set of one is written as its module.
  constexpr ModuleSet(BlockModule one)  // NOLINT(google-explicit-constructor)
      : bits_(static_cast<std::uint8_t>(1U << static_cast<unsigned>(one))) {}

  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr bool meets(ModuleSet other) const { return (bits_ & other.bits_) != 0; }
  constexpr ModuleSet& operator|=(ModuleSet other) {
    bits_ = static_cast<std::uint8_t>(bits_ | other.bits_);
    return *this;
  }
  auto operator<=>(const ModuleSet&) const = default;

 private:
  std::uint8_t bits_ = 0;
};

}  // namespace weir
