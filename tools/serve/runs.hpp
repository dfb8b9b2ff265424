// The runs below the folder that is served, as a table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/serve/workplace.hpp"

namespace weir {

// A row each folder that has a run.json, or the progress.json of a run under way: what was run, its
// loss, its rates, and how far off a forecast by the costs nearest to it was. What a row misses is
// null, and `why` says so where something cannot be read.
[[nodiscard]] Json runs_json(Workplace& workplace);

}  // namespace weir
