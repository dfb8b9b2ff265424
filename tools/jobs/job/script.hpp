// Python scripts with a plan's numbers in them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/job/resolve.hpp"

namespace weir {

// The text with every @NAME@ replaced.
[[nodiscard]] std::string filled(
    std::string_view text, const std::vector<std::pair<std::string_view, std::string>>& values);

// What a user wrote, as it stands between double quotes (one or three) of a Python string: nothing
// in it ends the string or begins an escape. Every such text goes through here.
[[nodiscard]] std::string python_text(std::string_view text);

// "0  embedding", "1-12  block", ...: equal neighbours on one line, for a docstring.
[[nodiscard]] std::string layer_lines(const Model& model);

// First layer of each stage, then one past the last.
[[nodiscard]] std::vector<int> bounds_of(const ResolvedPlan& loaded);

[[nodiscard]] std::string torch_dtype(Dtype dtype);  // "bfloat16"

}  // namespace weir
