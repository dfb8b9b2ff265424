// A model's weights out of Hugging Face's files and into one: the same tensors under the same
// names, each tied weight once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "exec/training/each_weight.hpp"
#include "exec/training/parameter_state.hpp"
#include "exec/weights/safetensors.hpp"
#include "plan/job/resolve.hpp"

namespace weir {

// The state of a run that begins with the weights of `path` (see WeightFiles). Every weight is
// looked up here: throws InputError naming the tensor where one is missing, has another shape or
// numbers that are no F32, F16 or BF16, and where the files have a weight that the model has not.
[[nodiscard]] StateSource weights_of(const ResolvedPlan& loaded, const std::filesystem::path& path);

// Writes them, or another part of them (gradients), as one file; `more` stands behind them. Called
// by all processes of a run; where `leads` is false nothing is written, but what others need given.
// With a seal (plan/text/seal). Throws as fail_to_write() does, when all have given what is theirs.
struct WeightsFile {
  std::filesystem::path file;
  ParameterPart part = ParameterPart::values;
  bool leads = true;
};
struct NamedValues {
  TensorShape shape;
  std::span<const std::byte> bytes;
};
void write_weights(const ResolvedPlan& loaded, const WeightsFile& to, const FetchParameter& fetch,
                   const std::vector<NamedValues>& more = {});

}  // namespace weir
