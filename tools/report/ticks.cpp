// Round ticks (Heckbert, Nice numbers for graph labels, Graphics Gems, 1990: steps of 1, 2 and 5).
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/ticks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/report/font.hpp"

namespace weir {
namespace {

constexpr double kRounding = 1e-9;  // of a step: what a quotient of doubles may miss

}  // namespace

std::string Ticks::text(double tick) const {
  if (std::abs(tick) >= 1e7) return fmt::format("{:g}", tick);
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + kRounding)));
  return fmt::format("{:.{}f}", tick == 0 ? 0.0 : tick, decimals);
}

Ticks round_ticks(double low, double high, int most) {
  const double power = std::pow(10, std::floor(std::log10((high - low) / most)));
  for (const double digit : {1., 2., 5., 10., 20., 50., 100.}) {
    const double step = digit * power;
    const double first = std::ceil(low / step - kRounding);
    const double last = std::floor(high / step + kRounding);
    if (last - first + 1 > most) continue;
    Ticks ticks{step, {}};
    for (int i = 0; first + i <= last; ++i) ticks.at.push_back((first + i) * step);
    return ticks;
  }
  return {high - low, {low}};
}

Ticks ticks_with_room(double high, double width, double size, const std::string& unit) {
  for (int most = 11; most > 2; --most) {
    Ticks ticks = round_ticks(0, high, most);
    const double widest = text_width(ticks.text(ticks.at.back()) + unit, size);
    if (widest + size < ticks.step / high * width) return ticks;
  }
  return round_ticks(0, high, 2);
}

}  // namespace weir
