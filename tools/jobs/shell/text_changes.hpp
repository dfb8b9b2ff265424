// ${X#a}, ${X%a}, ${X/a/b}, ${X:1:2}, ${X,,}: what bash makes of a variable's text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tools/jobs/bounds/budget.hpp"

namespace weir {

// What stands behind the name in the brackets, as it is written, applied to the text; patterns are
// those of glob.hpp. `filled` fills words in, `sum` tells numbers. Nothing where it is not known.
[[nodiscard]] std::optional<std::string> changed_text(
    const std::string& text, std::string_view change,
    const std::function<std::optional<std::string>(std::string_view)>& filled,
    const std::function<std::optional<std::int64_t>(std::string_view)>& sum, Budget& budget);

}  // namespace weir
