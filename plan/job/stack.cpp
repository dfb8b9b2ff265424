// Where a stack's stages begin.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/stack.hpp"

#include <algorithm>
#include <functional>

namespace weir {
namespace {

// What a block costs the rule that goes by products, in multiply-adds a token.
double products(const Layer& layer) {
  if (const auto* block = std::get_if<TransformerShape>(&layer.shape)) {
    const auto h = static_cast<double>(block->hidden);
    return h * (4 * h + 3 * static_cast<double>(block->ffn));
  }
  if (const auto* head = std::get_if<HeadShape>(&layer.shape))
    return static_cast<double>(head->vocabulary) * static_cast<double>(head->hidden);
  return 0;
}

// nanotron: a layer belongs to the stage whose share of the whole the sum reaches or passes with
// it. The head's cast and loss, of no cost, stay with it: a stage behind it is empty.
std::vector<int> by_cost(const Model& model, int stages) {
  std::vector<double> costs;
  double total = 0;
  for (const Layer& layer : model.layers) total += costs.emplace_back(products(layer));
  costs.insert(costs.end(), {0, 0});
  std::vector<int> boundaries;
  double sum = 0;
  for (std::size_t item = 0; item < costs.size(); ++item) {
    const auto filled = static_cast<double>(boundaries.size() + 1);
    sum += costs[item];
    if (sum >= total * filled / stages && filled < stages) {
      const std::size_t next = std::min(item + 1, model.layers.size());
      boundaries.push_back(static_cast<int>(next));
    }
  }
  // Stages whose share was never reached are empty, at the end.
  boundaries.resize(static_cast<std::size_t>(stages - 1), static_cast<int>(model.layers.size()));
  return boundaries;
}

// Those that predict further tokens go with what follows the last other one.
bool is_block(const Layer& layer) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  return block != nullptr && !predicts(*block);
}

// Boundaries before the given blocks, counted from the model's first one; what stands before the
// first block goes with it, what follows the last with that.
std::vector<int> before_blocks(const Model& model, const std::vector<int>& blocks) {
  int first = 0;
  while (first < static_cast<int>(model.layers.size()) &&
         !is_block(model.layers[static_cast<std::size_t>(first)]))
    ++first;
  std::vector<int> boundaries;
  for (const int block : blocks) boundaries.push_back(first + block);
  return boundaries;
}

}  // namespace

std::optional<std::vector<int>> stage_boundaries(const Stack& stack, const Model& model,
                                                 int stages) {
  if (stack.placement == StagePlacement::cost) return by_cost(model, stages);
  const auto blocks = static_cast<int>(std::ranges::count_if(model.layers, is_block));
  std::vector<int> starts;
  if (stack.placement == StagePlacement::embedding_head) {
    // DeepSpeed's balanced partition of equal weights: each stage is filled up to the least
    // possible maximum before the next begins. The embedding is the first item, the head the last.
    const int each = (blocks + 2 + stages - 1) / stages;
    for (int s = 1; s < stages; ++s) starts.push_back(std::clamp(s * each - 1, 0, blocks));
  } else {
    const int each = blocks / stages, rest = blocks % stages;
    // Megatron wants no remainder; where there is one it goes to the first stages, and in the
    // middle rule to those that follow the first.
    const int from = stack.placement == StagePlacement::middle ? 1 : 0;
    int start = 0;
    for (int s = 0; s + 1 < stages; ++s) {
      start += each + (s >= from && s < from + rest ? 1 : 0);
      starts.push_back(start);
    }
  }
  std::vector<int> boundaries = before_blocks(model, starts);
  const bool none_empty =
      std::ranges::adjacent_find(boundaries, std::ranges::greater_equal()) == boundaries.end() &&
      (boundaries.empty() ||
       (boundaries.front() > 0 && boundaries.back() < static_cast<int>(model.layers.size())));
  if (!none_empty && !stack.empty_stages) return std::nullopt;
  return boundaries;
}

}  // namespace weir
