// Arguments that say one thing together, in several ways: where one of the exporter's changes, all
// that a script may say it by do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace weir {

using ArgumentGroup = std::span<const std::string_view>;

// Whether traffic goes beside the passes, which costs nothing where it may stay behind them.
[[nodiscard]] ArgumentGroup reduction_arguments();
// A muon's own, and the word that says which optimizer it is.
[[nodiscard]] ArgumentGroup muon_arguments();

// Of a run: degrees, stages, batch, formats, schedule, re-materialisation, what devices share and
// the host keeps.
[[nodiscard]] std::span<const ArgumentGroup> run_arguments();
// Of the training besides: the rate's course, the optimizer, the seed.
[[nodiscard]] std::span<const ArgumentGroup> training_arguments();

// What others may need too: it comes with its group, and stays where that goes.
[[nodiscard]] bool stays_alone(std::string_view argument);

}  // namespace weir
