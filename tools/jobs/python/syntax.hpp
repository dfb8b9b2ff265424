// A Python file as the tree of its statements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tools/jobs/python/tree.hpp"

namespace weir {

// Throws InputError with the line of what is no Python.
[[nodiscard]] std::vector<PythonStatement> parse_python(const std::string& source,
                                                        const std::string& file);

}  // namespace weir
