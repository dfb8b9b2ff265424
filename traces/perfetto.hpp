// Traces as Perfetto protobuf (.pftrace), hand-encoded: nanosecond integers, ordered tracks, byte
// units, message arrows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "traces/trace.hpp"

namespace weir {

// Several traces in one picture: rank 0 of each, one above the other, then rank 1 of each, and so
// on. Predicted before measured puts a prediction directly above what happened.
[[nodiscard]] std::string to_perfetto(std::span<const Trace* const> traces);

}  // namespace weir
