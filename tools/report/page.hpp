// What reports share: the page around them, and the words for what limits a plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "traces/metrics.hpp"

namespace weir {

// One HTML file that needs no network; the title is escaped and heads the body.
[[nodiscard]] std::string html_page(const std::string& title, const std::string& body);

// What keeps a plan from its ideal: the largest cause of idle time over all ranks, or the work
// itself where the bubble is below 5 %.
[[nodiscard]] std::string limited_by(const StepMetrics& step, double bubble);

// A rank's busy time and its idle time by cause, as cells of a table, and what stands above them.
[[nodiscard]] std::string busy_and_idle_heads();
[[nodiscard]] std::string busy_and_idle_cells(const RankMetrics& rank);

}  // namespace weir
