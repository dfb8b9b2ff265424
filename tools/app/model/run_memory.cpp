// In GiB, whatever the size: both sides of the comparison in one unit.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/model/run_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "exec/device/free_memory.hpp"
#include "plan/words/error.hpp"

namespace weir {

void require_memory(const std::vector<RunNeed>& runs, double unsplit_bytes) {
  const auto there = free_memory();
  if (!there || runs.empty()) return;
  double needed = unsplit_bytes;
  for (const RunNeed& run : runs) needed += run.bytes;
  if (needed <= static_cast<double>(there->count())) return;
  const RunNeed& most = *std::ranges::max_element(runs, {}, &RunNeed::bytes);
  constexpr double kGiB = 1 << 30;
  throw RunFailed(fmt::format(
      "runs of {} {} and of the unsplit computation hold {:.1f} GiB together, {:.1f} GiB of them "
      "layout {}: {:.1f} GiB are free",
      runs.size(), runs.size() == 1 ? "layout" : "layouts", needed / kGiB, most.bytes / kGiB,
      most.layout, static_cast<double>(there->count()) / kGiB));
}

}  // namespace weir
