// How the work of one stage is divided among devices: tensor parallelism over the width of its
// matrices (Megatron: Shoeybi et al. 2019), sequence parallelism over the tokens of what that
// leaves whole (Korthikanti et al. 2022, section 4.2), context parallelism over the tokens of
// everything, expert parallelism over the experts (GShard: Lepikhin et al., ICLR 2021). As in
// Megatron, tensor parallelism divides each expert too, or fewer devices do (its expert tensor
// parallelism): then the devices of a tensor-parallel group have experts and tokens of their own.
// Slices divide a sequence in time instead: a device computes one after the other, and a causal
// block's later ones read the keys and values of the earlier (TeraPipe: Li et al., ICML 2021).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/model/model.hpp"

namespace weir {

struct Split {
  int tp = 1;
  int cp = 1;
  bool sequence_parallel = false;  // with tp above 1
  int ep = 1;                      // devices that share experts
  double expert_load = 1;          // of tokens, on the fullest of them over the mean
  int etp = 0;                     // devices that divide each expert, below tp; 0: tp
  int slices = 1;                  // of a sequence, with cp of 1; each has as much work
  bool operator==(const Split&) const = default;
  auto operator<=>(const Split&) const = default;

  [[nodiscard]] int expert_tp() const { return etp > 0 ? etp : tp; }
  // Of the visits of a tensor-parallel group's tokens, a device's.
  [[nodiscard]] double expert_share() const { return static_cast<double>(expert_tp()) / tp; }
  // Tokens of a sample, or of a slice of it, that one device sees where tensors are split by
  // width, and where they are not.
  [[nodiscard]] std::int64_t tokens(std::int64_t seq_length) const {
    return seq_length / cp / slices;
  }
  [[nodiscard]] std::int64_t rows(std::int64_t seq_length) const {
    return tokens(seq_length) / (sequence_parallel ? tp : 1);
  }
};

// One device's part of a layer: heads, key-value heads and feed-forward width divided by tp, the
// vocabulary too, rounded up as frameworks pad it; experts by ep, the width of each by etp.
// Precondition: it can be split.
[[nodiscard]] LayerShape shard(const LayerShape& shape, const Split& split);

// Why a model cannot be divided like this: the plan's key at fault and the reason; nullopt: it can.
struct Misfit {
  std::string key;
  std::string reason;
};
[[nodiscard]] std::optional<Misfit> cannot_split(const Model& model, std::int64_t seq_length,
                                                 const Split& split);

}  // namespace weir
