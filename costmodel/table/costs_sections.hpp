// The tables of weir.costs/1 in docs/formats.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/format/spec.hpp"

namespace weir {

[[nodiscard]] std::vector<format::Section> costs_sections();

}  // namespace weir
