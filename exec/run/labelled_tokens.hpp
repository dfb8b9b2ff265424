// Training data with labels of its own: a safetensors file with the arrays that transformers'
// models for masked tokens are called with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace weir {

// Whether a file is read by its labels: its name ends in .safetensors.
[[nodiscard]] bool holds_labels(const std::filesystem::path& file);

struct LabelledSizes {
  std::int64_t seq_length = 0;
  std::int64_t vocabulary = 0;
  std::int64_t token_types = 0;
};

// The samples' words, one sample after the other, as plan/model/sample has masked tokens: of
// `input_ids` and `labels`, [samples, seq_length], -100 where there is none, and of
// `token_type_ids`, zeros if left out; all I32 or I64. Throws InputError for other tensors, shapes
// and types, for numbers that the model has no row for, and where there is no label at all.
[[nodiscard]] std::vector<std::int32_t> read_labelled(const std::filesystem::path& file,
                                                      const LabelledSizes& sizes);

}  // namespace weir
