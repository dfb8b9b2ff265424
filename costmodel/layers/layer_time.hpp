// How long a layer takes, by micro-batch size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "plan/words/per_kind.hpp"
#include "plan/words/units.hpp"

namespace weir {

// One layer, one micro-batch of a given size. Medians of measured repetitions; b is the full
// backward, measured as a whole. R, which is F again, and the update, which has no micro-batch, are
// filled in where a plan's layers are priced (costmodel/table/stage_costs).
struct LayerTime : PerKind<Seconds> {
  double spread = 0;  // interquartile range of f over its median
  Bytes scratch{0};   // library scratch memory the backend asked for beyond layer_tensors
  Seconds core{0};    // of f: what selective re-materialisation does again; 0: not known apart
};

struct LayerCost {
  std::string key;  // layer_key(): the full shape, so equal keys mean equal work
  std::map<int, LayerTime>
      by_batch;          // micro-batch size -> times; interpolated between, flagged outside
  Seconds optimizer{0};  // update of this layer's parameters, once a step
};

}  // namespace weir
