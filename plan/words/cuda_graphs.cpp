// Words of what is launched as CUDA graphs.
// SPDX-License-Identifier: Apache-2.0
#include "plan/words/cuda_graphs.hpp"

#include <algorithm>

namespace weir {

std::string to_string(const CudaGraphs& graphs) {
  if (graphs.none()) return "none";
  if (graphs.whole_step()) return "step";
  if (graphs.whole_blocks()) return "blocks";
  std::string text;
  for (const auto& [part, name] : kGraphParts) {
    if (!graphs.has(part)) continue;
    if (!text.empty()) text += '+';
    text += name;
  }
  return text;
}

// moe has router and preprocessing in it.
std::optional<std::string_view> cannot_record(const CudaGraphs& graphs) {
  if (graphs.whole_step() || graphs.whole_blocks()) return std::nullopt;
  const bool router = graphs.has(GraphPart::moe_router);
  if (graphs.has(GraphPart::moe_preprocess) && !router)
    return "expected moe_preprocess with moe_router";
  if (graphs.has(GraphPart::moe) && router) return "expected moe without moe_router";
  return std::nullopt;
}

std::optional<CudaGraphs> parse_cuda_graphs(std::string_view text) {
  if (text == "none") return CudaGraphs();
  if (text == "step") return CudaGraphs::of_step();
  if (text == "blocks") return CudaGraphs::of_blocks();
  CudaGraphs graphs;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find_first_of("+, ", from), text.size());
    const auto part = named(kGraphParts, text.substr(from, end - from));
    if (!part) return std::nullopt;
    graphs.add(*part);
    from = end + 1;
  }
  return cannot_record(graphs) ? std::nullopt : std::optional(graphs);
}

}  // namespace weir
