// A weighted line by kind of pass.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/fixed_part.hpp"

#include <algorithm>

namespace weir {
namespace {

// time ~ a + slope x size, each residual over its time: weights 1 / time^2.
double intercept(const std::map<int, LayerTime>& by_batch, ActionKind kind) {
  double w = 0, x = 0, y = 0, xx = 0, xy = 0, shortest = 0;
  for (const auto& [size, times] : by_batch) {
    const double time = times[kind].count();
    if (time <= 0) return 0;
    const double weight = 1 / (time * time);
    w += weight;
    x += weight * size;
    y += weight * time;
    xx += weight * size * size;
    xy += weight * size * time;
    shortest = shortest == 0 ? time : std::min(shortest, time);
  }
  // Normal equations of two unknowns. A fixed part is no negative time, and no more than the
  // shortest pass.
  return std::clamp((y * xx - x * xy) / (w * xx - x * x), 0.0, shortest);
}

}  // namespace

PerKind<Seconds> fixed_part(const LayerCost& cost) {
  PerKind<Seconds> part;
  if (cost.by_batch.size() < 2) return part;
  for (const ActionKind kind : kPassKinds) part[kind] = Seconds(intercept(cost.by_batch, kind));
  return part;
}

}  // namespace weir
