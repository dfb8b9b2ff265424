// Python scripts with a plan's numbers in them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/job/plan.hpp"

namespace weir {

// The text with every @NAME@ replaced.
[[nodiscard]] std::string filled(
    std::string_view text, const std::vector<std::pair<std::string_view, std::string>>& values);

// "  0 embedding", "  1-12 block", ...: equal neighbours on one line.
[[nodiscard]] std::string layer_lines(const Model& model);

// First layer of each stage, then one past the last.
[[nodiscard]] std::vector<int> bounds_of(const LoadedPlan& loaded);

[[nodiscard]] std::string torch_dtype(Dtype dtype);  // "bfloat16"

}  // namespace weir
