// How long a layer takes, by micro-batch size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "plan/words/units.hpp"

namespace weir {

// One layer, one micro-batch of a given size. Medians of measured repetitions.
struct LayerTime {
  Seconds f{0};
  Seconds i{0};
  Seconds w{0};
  Seconds b{0};       // full backward, measured as a whole
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
