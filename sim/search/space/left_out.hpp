// What a search's space holds that is no plan for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "costmodel/memory/host_memory.hpp"
#include "plan/job/plan.hpp"

namespace weir {

// Combinations that are no plan of the search, by the reason; and of those the one that missed by
// least, where that can be said.
struct LeftOut {
  std::string reason{};  // devices, divisibility, software, schedule, memory or host memory
  std::int64_t count = 0;
  std::string nearest{};
};

// One more that a host's memory does not hold; the first is told.
void leave_out(LeftOut& left_out, const Plan& plan, const HostHeld& host);

}  // namespace weir
