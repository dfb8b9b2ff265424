// What a model's weights are called in Hugging Face's files, and how they lie there. A family is
// one function beside weight_names.cpp's table: from a layer and a tensor of it to its rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/weights/safetensors.hpp"
#include "plan/model/layer_tensors.hpp"
#include "plan/model/model.hpp"

namespace weir {

// Rows of a tensor of a file that are rows of one of ours; a vector's rows are its numbers.
struct NamedRows {
  std::string name;
  std::int64_t row = 0;       // the first of ours
  std::int64_t rows = 0;      // how many
  std::int64_t file_row = 0;  // the first of the file's
  bool transposed = false;    // the file has the whole tensor as [in, out] (GPT-2's Conv1D)
};

// The rows of a parameter of layer `layer`, all of them, in files of the model's family. A layer
// list of one's own has its own names: own_name. Throws MissingComponent for a family whose names
// are not known.
[[nodiscard]] std::vector<NamedRows> named_rows(const Model& model, int layer,
                                                const ParameterTensor& parameter);

// "block.3.mlp.up.weight", whatever the family.
[[nodiscard]] std::string own_name(const Model& model, int layer, const ParameterTensor& parameter);

// What the base of a model, saved without its head, leaves out before its names: "transformer.".
[[nodiscard]] std::string base_prefix(const Model& model);

// Tensors of a file that hold nothing of a model's: masks and the like, which older files have,
// heads that it was trained with beside its own, and a tied head's copies.
[[nodiscard]] bool is_no_weight(const std::string& name);

// What older files call a tensor of this name; the name itself where they call it the same.
[[nodiscard]] std::string older_name(const std::string& name);

// The tensors of a file that a parameter with these rows fills, in order.
[[nodiscard]] std::vector<TensorShape> file_shapes(std::span<const NamedRows> rows,
                                                   const ParameterTensor& parameter);
// The numbers of one of them, from ours.
[[nodiscard]] std::vector<float> to_file(const TensorShape& tensor, std::span<const NamedRows> rows,
                                         const ParameterTensor& parameter,
                                         std::span<const float> values);
// Puts the numbers of one of them where they are ours.
void from_file(const TensorShape& tensor, std::span<const NamedRows> rows,
               const ParameterTensor& parameter, std::span<const float> file,
               std::span<float> values);

}  // namespace weir
