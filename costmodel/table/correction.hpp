// What running pipelines showed of the factors between a profile's times and their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "plan/words/per_kind.hpp"

namespace weir {

// Multiplicative corrections learnt from traces, per action kind; 1 when nothing was learnt.
struct Correction : PerKind<double> {
  Correction() : PerKind{1, 1, 1, 1, 1, 1} {}
};

// The same for all passes of a micro-batch size: micro-batch size -> factor. A running pipeline
// treats small and large micro-batches differently from the loop that measured their layers.
using SizeCorrection = std::map<int, double>;
// Between sizes interpolated, log factor over log size; beyond them that of the nearest; 1 where
// nothing was learnt.
[[nodiscard]] double factor_at(const SizeCorrection& correction, int micro_batch_size);

}  // namespace weir
