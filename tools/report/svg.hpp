// A drawing as SVG, which follows its viewer's preference for light or dark pages
// (prefers-color-scheme, CSS Media Queries 5) and is light where a viewer knows none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/report/vector.hpp"

namespace weir {

[[nodiscard]] std::string to_svg(const Drawing& drawing);

// "#rrggbb".
[[nodiscard]] std::string css(const Colour& colour);

// Text as HTML and SVG want it.
[[nodiscard]] std::string escape(const std::string& text);

}  // namespace weir
