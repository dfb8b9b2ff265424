// What an exception means to the person at the command: what kind of end it is, and one line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace weir {

enum class EndKind : std::uint8_t { done, bug, usage, bad_input, no_plan, missing, failed };

struct Ending {
  EndKind kind = EndKind::done;
  std::string line;
};

[[nodiscard]] Ending ending_of(const std::exception_ptr& thrown);

}  // namespace weir
