// What of a step is launched as CUDA graphs, recorded once and launched as one: nothing, the
// forwards and backwards of a whole step, every block by itself, or parts of blocks, by the names
// that Megatron-LM's --cuda-graph-modules has for them (core/transformer/transformer_config.py,
// cuda_graph_modules, @d98e8a64ddf3). The update is launched kernel by kernel in any case.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plan/words/names.hpp"

namespace weir {

enum class GraphPart : std::uint8_t {
  attn,            // attention with its norm and sum
  mlp,             // of a block without experts, with its norm and sum
  moe,             // of one with experts, exchanges included: the tokens of each must be padded
  moe_router,      // its norm, router and shared experts
  moe_preprocess,  // what is counted and sorted before tokens are sent
};
inline constexpr Names<GraphPart, 5> kGraphParts{{{GraphPart::attn, "attn"},
                                                  {GraphPart::mlp, "mlp"},
                                                  {GraphPart::moe, "moe"},
                                                  {GraphPart::moe_router, "moe_router"},
                                                  {GraphPart::moe_preprocess, "moe_preprocess"}}};

class CudaGraphs {
 public:
  constexpr CudaGraphs() = default;  // none
  [[nodiscard]] static constexpr CudaGraphs of_step() { return CudaGraphs(kStep); }
  [[nodiscard]] static constexpr CudaGraphs of_blocks() { return CudaGraphs(kBlocks); }
  constexpr CudaGraphs& add(GraphPart part) {
    bits_ = static_cast<std::uint8_t>(bits_ | bit(part));
    return *this;
  }

  [[nodiscard]] constexpr bool none() const { return bits_ == 0; }
  [[nodiscard]] constexpr bool whole_step() const { return bits_ == kStep; }
  [[nodiscard]] constexpr bool whole_blocks() const { return bits_ == kBlocks; }
  // Whether these kernels are in some graph.
  [[nodiscard]] constexpr bool has(GraphPart part) const {
    return whole_step() || whole_blocks() || (bits_ & bit(part)) != 0;
  }
  auto operator<=>(const CudaGraphs&) const = default;

 private:
  static constexpr std::uint8_t kStep = 1U << 7U, kBlocks = 1U << 6U;
  explicit constexpr CudaGraphs(std::uint8_t bits) : bits_(bits) {}
  static constexpr std::uint8_t bit(GraphPart part) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(part));
  }
  std::uint8_t bits_ = 0;
};

// "none", "step", "blocks", or parts in the table's order: "attn+moe_router".
[[nodiscard]] std::string to_string(const CudaGraphs& graphs);
// Why no software records just these parts; nullopt: it can.
[[nodiscard]] std::optional<std::string_view> cannot_record(const CudaGraphs& graphs);
// to_string's inverse, parts in any order, and with commas or spaces between them; nullopt for
// another word, and for what cannot be recorded.
[[nodiscard]] std::optional<CudaGraphs> parse_cuda_graphs(std::string_view text);

}  // namespace weir
