// Checkpoint intervals by Young, by Daly and the best one (docs/theory.md 10).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/goodput.hpp"

#include <algorithm>
#include <cmath>

namespace weir {

Seconds mtbf_of_all(Seconds mtbf_of_one, std::int64_t devices) {
  return mtbf_of_one / static_cast<double>(devices);
}

Seconds expected_segment(Seconds useful, const Reliability& r) {
  return std::exp(r.restart / r.mtbf) * std::expm1((useful + r.checkpoint) / r.mtbf) *
         (r.mtbf + r.downtime);
}

double goodput(Seconds useful, const Reliability& r) {
  return useful / expected_segment(useful, r);
}

Seconds young_interval(const Reliability& r) {
  return Seconds(std::sqrt(2 * r.checkpoint.count() * r.mtbf.count()));
}

Seconds daly_interval(const Reliability& r) {
  const double part = r.checkpoint / (2 * r.mtbf);
  // Daly's series holds for C < 2 mu.
  if (part >= 1) return r.mtbf;
  return young_interval(r) * (1 + std::sqrt(part) / 3 + part / 9) - r.checkpoint;
}

Seconds best_interval(const Reliability& r) {
  const double c = r.checkpoint / r.mtbf;
  double low = 0, high = 1;  // x + e^-(x + c) - 1 rises from e^-c - 1 <= 0 to e^-(1 + c) > 0
  for (int halving = 0; halving < 200 && low < high; ++halving) {
    const double middle = (low + high) / 2;
    if (middle == low || middle == high) break;
    // e^-(x + c) - 1 by expm1: c may be far below 1.
    (middle + std::expm1(-(middle + c)) < 0 ? low : high) = middle;
  }
  return r.mtbf * low;
}

CheckpointPlan best_checkpoints(Seconds step, const Reliability& r) {
  const auto below =
      static_cast<std::int64_t>(std::max(1.0, std::min(best_interval(r) / step, 1e15)));
  CheckpointPlan best;
  for (const std::int64_t steps : {below, below + 1}) {
    const Seconds interval = step * static_cast<double>(steps);
    const double part = goodput(interval, r);
    if (part > best.goodput || best.interval == Seconds(0)) best = {steps, interval, part};
  }
  return best;
}

}  // namespace weir
