// What a search's space holds that is no plan for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace weir {

// Combinations that are no plan of the search, by the reason; and of those the one that missed by
// least, where that can be said.
struct LeftOut {
  std::string reason{};  // devices, divisibility, software, schedule or memory
  std::int64_t count = 0;
  std::string nearest{};
};

}  // namespace weir
