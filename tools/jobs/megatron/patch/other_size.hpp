// Where the model of a script is not the plan's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/model/model.hpp"

namespace weir {

// By the argument that says it.
struct OtherSize {
  std::string_view argument;
  std::string here, wanted;
};
// The first size in which two models differ; vocabularies are padded by tensor parallelism, and no
// matter here. Nor are blocks that predict further tokens, which are the plan's.
[[nodiscard]] std::optional<OtherSize> other_size(const Model& script, const Model& plan);

}  // namespace weir
