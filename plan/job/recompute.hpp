// Re-materialisation: what of a forward pass is dropped after F and made again for the backward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/model/model_part.hpp"
#include "plan/program/lower.hpp"

namespace weir {

// selective: some modules of a block are done again within its backward, everything else is kept:
// the attention core (scores, probabilities, their product with the values) where nothing else is
// said (Korthikanti et al. 2022, section 5), or those that are named (plan/model/block_modules).
// With fused attention the core keeps only its statistics, and the backward makes them again by a
// second forward of the core: time for next to no memory.
// full: a layer at a time. Of a layer only its input is kept, and it is rebuilt within its stage's
// B or I when the gradient of its output is there: what Megatron, torchtitan and DeepSpeed call
// full. Every block, or the layers that are named. With N > 1 blocks at a time, Megatron's method
// `uniform` with --recompute-num-layers N, a stage's blocks are cut into chunks of N from its
// first one, the last chunk may be shorter; of a chunk only the input is kept, and all of it is
// rebuilt before its last block's backward.
// stage: GPipe's. Of a stage only its input is kept, and all of it is rebuilt at once by an action
// of its own, R (Huang et al. 2019, section 2.3).
enum class RecomputeMode : std::uint8_t { none, selective, full, stage };

struct Recompute {
  RecomputeMode mode = RecomputeMode::none;
  // Of full: these layers of the model, ascending and with a gap between any two; empty: blocks.
  std::vector<LayerRange> layers{};
  int at_a_time = 1;  // of full without layers: N blocks of a stage from one kept input
  ModuleSet modules = BlockModule::core_attn;  // of selective
  bool except_last = false;  // --recompute-microbatches except-last; of full and stage
  RecomputePlacement placement = RecomputePlacement::early;  // of stage's R
  bool operator==(const Recompute&) const = default;
};

// Whether `layer` of the model, `part`, is rebuilt by itself: mode full.
[[nodiscard]] bool rebuilds(const Recompute& recompute, const LayerPart& part, int layer);

// Whether every block is, of every micro-batch: of blocks their inputs alone are kept.
[[nodiscard]] bool rebuilds_every_block(const Recompute& recompute);

// Of each layer of a stage, by whether it is rebuilt by itself: the first layer of its chunk, or
// itself, counted from the stage's first.
[[nodiscard]] std::vector<std::size_t> chunk_starts(const Recompute& recompute,
                                                    const std::vector<bool>& rebuilt);

[[nodiscard]] std::string_view to_string(RecomputeMode mode);

// Layers of a model by first and last: "0-11,40"; its inverse, ascending and those that touch as
// one; nullopt for any other word.
[[nodiscard]] std::string layers_word(const std::vector<LayerRange>& layers);
[[nodiscard]] std::optional<std::vector<LayerRange>> parse_layers(std::string_view word);

// "none", "selective", "full", "stage", "full:4" (blocks at a time), the layers of full by first
// and last: "0-11,40", or the modules of selective where they are not the core alone:
// "selective:layernorm+moe_act".
[[nodiscard]] std::string recompute_word(const Recompute& recompute);
// Its inverse: mode, layers, blocks at a time and modules, the rest as it is by default. Layers and
// modules may come in any order, and layers touch. nullopt for any other word.
[[nodiscard]] std::optional<Recompute> parse_recompute_word(std::string_view word);

}  // namespace weir
