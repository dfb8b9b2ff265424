// Words and targets of a sample, by the model's first and last layer.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/sample.hpp"

namespace weir {

const FeatureMap* images_of(const Model& model) {
  if (model.layers.empty()) return nullptr;
  const auto* cell = std::get_if<CellShape>(&model.layers.front().shape);
  return cell != nullptr && cell->reads_images ? &cell->input : nullptr;
}

std::int64_t sample_targets(const Model& model, std::int64_t seq_length) {
  const auto* head =
      model.layers.empty() ? nullptr : std::get_if<HeadShape>(&model.layers.back().shape);
  return head == nullptr ? seq_length : head->positions(seq_length);
}

std::int64_t sample_words(const Model& model, std::int64_t seq_length) {
  const FeatureMap* image = images_of(model);
  return image == nullptr ? seq_length + 1 : image->numbers() + sample_targets(model, seq_length);
}

}  // namespace weir
