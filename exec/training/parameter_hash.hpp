// The hash of trained parameters: little-endian fp32 in layer order, each tied weight once, whoever
// holds them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "plan/job/resolve.hpp"

namespace weir {

// Calls `visit` for each parameter that the hash covers, in its order: stage (of the first copy),
// index among the stage's parameters, elements.
void visit_hashed_parameters(
    const ResolvedPlan& loaded,
    const std::function<void(Stage stage, std::size_t parameter, std::int64_t elements)>& visit);

// SHA-256 in hex; `read(stage, parameter, values)` fills in a parameter's values.
[[nodiscard]] std::string hash_parameters(
    const ResolvedPlan& loaded,
    const std::function<void(Stage stage, std::size_t parameter, std::vector<float>& values)>&
        read);

}  // namespace weir
