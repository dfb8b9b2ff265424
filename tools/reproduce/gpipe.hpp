// What GPipe's tables of throughput share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/reproduce/reproduction.hpp"

namespace weir {

// One gain in throughput from K and M over base_k and base_m.
struct GPipeGain {
  int k = 1, m = 1, base_k = 1, base_m = 1;
};
[[nodiscard]] GPipeGain read_gain(const PublishedRow& row);

// Adds it as predicted; or as an anomaly where the printed figure is above the most that K and M
// can gain at one batch size: equal stages, free messages, and of keeping and re-materialising what
// gains more.
void add_gain(CaseResult& result, const GPipeGain& gain, const ReproducedNumber& number);

}  // namespace weir
