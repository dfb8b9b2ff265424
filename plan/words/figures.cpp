// Significant digits without an exponent.
// SPDX-License-Identifier: Apache-2.0
#include "plan/words/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace weir {
namespace {

// Thousands are set apart, from the point to the left.
std::string with_commas(std::string text) {
  const std::size_t begin = text[0] == '-' ? 1 : 0;
  for (std::size_t at = std::min(text.find('.'), text.size()); at > begin + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

}  // namespace

std::string format_figure(double value, int digits) {
  std::string text = fmt::format("{:.{}g}", value, digits);
  const double size = std::abs(value);
  if (!std::isfinite(value) || size >= 1e15 || (size < 1e-5 && size > 0)) return text;
  // Read back: what the digits leave is a whole number, or has few places.
  if (text.find('e') != std::string::npos) {
    const double rounded = std::strtod(text.c_str(), nullptr);
    text = size >= 1 ? fmt::format("{:.0f}", rounded) : fmt::format("{:.{}f}", rounded, digits + 4);
    if (size < 1) text.erase(text.find_last_not_of('0') + 1);
  }
  return with_commas(std::move(text));
}

std::string format_whole(double value) { return with_commas(fmt::format("{:.0f}", value)); }

}  // namespace weir
