// The questions that follow a search's first one: the best plan of each family, and the front of
// step time and memory. Each is a search of its own for what nothing yet answers well enough, and
// all are answered from all plans that any of them looked at. What they leave of a budget is the
// first one's again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sim/search/walk.hpp"

namespace weir {

// Sets `families` and `front` of the result where the request asks for them, and adds to its
// counts. `answer` is the first question's so far, which asked for `first`.
void ask_further(SearchGround& ground, Goal first, Answer& answer, SweepResult& result);

}  // namespace weir
