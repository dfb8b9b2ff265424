// The files beside this header, as they are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace weir::app {

struct PageParts {
  std::string_view body, style, engine, view;  // HTML, CSS, and two scripts
};
[[nodiscard]] PageParts page_parts();

}  // namespace weir::app
