// A vocabulary whose rows devices divide: which of them one has, and the cross-entropy over all
// (Shoeybi et al. 2019, section 3).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "exec/device/tensor_group.hpp"

namespace weir::cpu {

// Rows [first, first + rows) of the table; undivided, all of them.
struct VocabularyPart {
  std::int64_t first = 0;
  std::int64_t rows = 0;
  VocabularyPart(std::int64_t own_rows, const TensorGroup* group)
      : first(group == nullptr ? 0 : group->place() * own_rows), rows(own_rows) {}
  [[nodiscard]] bool has(std::int64_t token) const {
    return token >= first && token < first + rows;
  }
  // Rows that are classes: behind the last of them the table is filled up.
  [[nodiscard]] std::int64_t classes(std::int64_t of_all) const {
    return std::clamp(of_all - first, std::int64_t{0}, rows);
  }
};

// Row i of the logits of this part, [targets, part.rows], becomes (softmax - one at its target) *
// scale, zeros beyond `classes`; returns the sum of -log softmax[target] over the rows, in double.
// Three all-reduces of one number a row: the largest, the sum and the target's.
struct DividedLoss {
  VocabularyPart part;
  std::int64_t classes = 0;  // of part.rows
  float scale = 1;
};
[[nodiscard]] double divided_cross_entropy(const DividedLoss& loss,
                                           std::span<const std::int32_t> targets, float* logits,
                                           TensorGroup& group);

}  // namespace weir::cpu
