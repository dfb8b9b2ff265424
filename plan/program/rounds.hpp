// An order of a program's operations in which few messages are in flight, and rounds of a steady
// phase are alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/program/program.hpp"

namespace weir {

// A wave through more ranks than these may take as many rounds, each over all lanes:
// Program::order() is another order there.
constexpr std::int32_t kMostInRounds = 1024;

// Each operation behind its lane predecessor and all that it waits for; fewer, where the program
// waits for itself. Ranks take turns, one action each, and every message goes as soon as it can.
[[nodiscard]] std::vector<OperationId> order_in_rounds(const Program& program);

}  // namespace weir
