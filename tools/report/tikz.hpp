// A drawing as a TikZ picture, for \input into a paper: its text is the document's own, sans serif.
// Needs \usepackage{tikz}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/report/vector.hpp"

namespace weir {

[[nodiscard]] std::string to_tikz(const Drawing& drawing);

}  // namespace weir
