// Where an axis has its numbers, and how they are written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace weir {

struct Ticks {
  double step = 1;         // 1, 2 or 5 times a power of ten
  std::vector<double> at;  // the multiples of it within the axis, ascending

  // With the decimals that tell two ticks apart: "0.15" of a step of 0.05.
  [[nodiscard]] std::string text(double tick) const;
};

// At most `most` ticks from `low` to `high`, of the smallest step that has no more.
// Preconditions: low < high, most >= 2.
[[nodiscard]] Ticks round_ticks(double low, double high, int most);

// As many as have room beside each other on an axis `width` long, written in `size` with `unit`
// behind each number but 0.
[[nodiscard]] Ticks ticks_with_room(double high, double width, double size,
                                    const std::string& unit);

}  // namespace weir
