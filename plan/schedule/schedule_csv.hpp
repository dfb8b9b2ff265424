// Schedules as text in PyTorch's pipelining dialect: one row a rank, no header, one action a cell,
// empty cells skipped.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/schedule/schedule.hpp"

namespace weir {

// Compute actions only, PyTorch's "compute_only"; a schedule that slices sequences gets a first
// line of its own, "# segments=2", which PyTorch has not. Throws UsageError where it divides the
// vocabulary.
[[nodiscard]] std::string to_csv(const Schedule& schedule);

// Reads compute_only or compute_comms files; messages and the waits for them are dropped, lowering
// derives them again. Old files that write B for the input half of the backward (they have W and no
// I) are translated. Stages are placed by where their actions stand. Throws InputError with row and
// column; the message ends with the cell.
[[nodiscard]] Schedule parse_schedule_csv(const std::string& text, const std::string& file);

}  // namespace weir
