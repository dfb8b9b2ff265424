// A timeline in characters, one row a rank, for terminals.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "traces/trace.hpp"

namespace weir {

// Prints the compute lanes of the first step to stdout: the shortest action gets five cells, enough
// for its name. Colours on a terminal unless NO_COLOR is set.
void draw_in_terminal(const Trace& trace);

}  // namespace weir
