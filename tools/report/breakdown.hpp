// Where a step's time and a device's memory go, as parts of reports.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"
#include "tools/report/idle_shares.hpp"
#include "traces/metrics.hpp"

namespace weir {

// What keeps a plan from its ideal: the largest cause of idle time over all ranks, or the work
// itself where the bubble is below 5 %.
[[nodiscard]] std::string limited_by(const StepMetrics& step, double bubble);

// Whether it fits: "yes", "no", or of what may the probability: "72 %".
[[nodiscard]] std::string fit_word(const Forecast& forecast);

// What the figures of a report are worth, to stand before all of them; nothing where nothing is
// known to have taken from them.
[[nodiscard]] std::string disturbance_warning(const std::string& disturbed);

// What the best plan does otherwise than the present one: an argument of its job, or a key of its
// plan; empty where one side has none.
struct ReportChange {
  std::string name, before, after;
};
// What each of them is, in the plans that are called `before` and `after`; a sentence of a single
// one.
[[nodiscard]] std::string changes_table(const std::vector<ReportChange>& changes,
                                        const std::string& before,
                                        const std::string& after = "best plan");

// Step, bubble and peak memory of a forecast, then devices, tokens/s and model TFLOP/s a device and
// MFU; step and rates are the measured ones where a step time is given. What is not known is left
// out.
[[nodiscard]] std::string facts(const Forecast& forecast,
                                std::optional<Seconds> measured = std::nullopt);

// The bubble by cause: shares of all ranks' step, which sum to it; beside them the measured ones,
// where there are any. A sentence where all are 0.
struct BubbleColumn {
  std::string name;
  SharesByCause shares;
};
[[nodiscard]] std::string bubble_table(const std::vector<BubbleColumn>& columns);

[[nodiscard]] bool is_ever_idle(const StepMetrics& step);

// What stands behind a table of plans by their names in short; each part that they have.
[[nodiscard]] std::string legend_note(const std::vector<std::string>& names);

// A rank's busy time and its idle time by cause, as cells of a table, and what stands above them.
[[nodiscard]] std::string busy_and_idle_heads();
[[nodiscard]] std::string busy_and_idle_cells(const RankMetrics& rank);

// Each rank's peak by what it is held for; kinds that no rank holds are left out. A
// sentence of a single rank.
[[nodiscard]] std::string memory_table(const std::vector<RankMemory>& ranks);

}  // namespace weir
