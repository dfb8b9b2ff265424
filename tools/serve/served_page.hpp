// The page of `weir serve`, put together of body.html, style.css and serve.js.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace weir {

struct ServedParts {
  std::string_view body, style, script;
};
[[nodiscard]] ServedParts served_parts();

[[nodiscard]] std::string served_page();

}  // namespace weir
