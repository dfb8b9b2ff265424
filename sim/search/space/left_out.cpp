// Words for what a host holds.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/left_out.hpp"

#include <fmt/format.h>

#include "plan/job/summary.hpp"

namespace weir {

void leave_out(LeftOut& left_out, const Plan& plan, const HostHeld& host) {
  if (left_out.count++ > 0) return;
  left_out.nearest = fmt::format("{} keeps {} with a node's host of {}", summary(plan),
                                 format_bytes(host.held()), format_bytes(host.memory));
}

}  // namespace weir
