// Words and targets of a sample, by the model's first and last layer.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/sample.hpp"

#include <algorithm>

namespace weir {

SampleKind sample_kind(const Model& model) {
  if (images_of(model) != nullptr) return SampleKind::image;
  const bool both_sides = std::ranges::any_of(model.layers, [](const Layer& layer) {
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    return block != nullptr && !block->causal;
  });
  return both_sides ? SampleKind::masked_tokens : SampleKind::next_tokens;
}

const FeatureMap* images_of(const Model& model) {
  if (model.layers.empty()) return nullptr;
  const LayerShape& first = model.layers.front().shape;
  if (const auto* cell = std::get_if<CellShape>(&first))
    return cell->reads_images ? &cell->input : nullptr;
  const auto* embedding = std::get_if<EmbeddingShape>(&first);
  return embedding != nullptr && embedding->patch > 0 ? &embedding->image : nullptr;
}

std::int64_t sample_targets(const Model& model, std::int64_t seq_length) {
  const auto* head =
      model.layers.empty() ? nullptr : std::get_if<HeadShape>(&model.layers.back().shape);
  return head == nullptr ? seq_length : head->positions(seq_length);
}

std::int64_t sample_words(const Model& model, std::int64_t seq_length) {
  switch (sample_kind(model)) {
    case SampleKind::image:
      return images_of(model)->numbers() + sample_targets(model, seq_length);
    case SampleKind::masked_tokens:
      return 3 * seq_length;
    case SampleKind::next_tokens:
      break;
  }
  return seq_length + 1;
}

}  // namespace weir
