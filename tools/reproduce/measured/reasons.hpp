// Why aims are missed, as far as it is known.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "tools/reproduce/measured/aims.hpp"

namespace weir {

// One sentence, of what was found when a missed line's rows were read; empty where nothing is
// known, and for a line that is not missed.
[[nodiscard]] std::string_view known_reason(const AimLine& line);

}  // namespace weir
