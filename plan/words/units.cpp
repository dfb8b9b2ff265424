// Numbers with units from text, and back for people. The tables below are the only list of units
// there is.
// SPDX-License-Identifier: Apache-2.0
#include "plan/words/units.hpp"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "plan/words/figures.hpp"

namespace weir {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 9> kByteUnits{{{"B", 1},
                                          {"KB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12},
                                          {"KiB", 1024.0},
                                          {"MiB", 1024.0 * 1024},
                                          {"GiB", 1024.0 * 1024 * 1024},
                                          {"TiB", 1024.0 * 1024 * 1024 * 1024}}};
constexpr std::array<Unit, 6> kTimeUnits{
    {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}}};

// "1.5 ms": a non-negative decimal number, at most one space, a unit of the table, nothing else.
template <std::size_t N>
std::optional<double> parse_with_unit(std::string_view text, const std::array<Unit, N>& units) {
  if (text.empty() || text.front() < '0' || text.front() > '9')
    return std::nullopt;  // no sign, no "inf"
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  for (const Unit& unit : units) {
    if (text == unit.name) return number * unit.factor;
  }
  return std::nullopt;
}

}  // namespace

Nanoseconds to_nanoseconds(Seconds value) {
  const double rounded = std::round(value.count() * 1e9);
  // Not `>=`: so NaN is refused as well.
  if (!(std::abs(rounded) < 9.2e18)) {
    throw std::range_error(fmt::format("{} s is no time of an event", value.count()));
  }
  return Nanoseconds(static_cast<std::int64_t>(rounded));
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  const auto value = parse_with_unit(text, kByteUnits);
  if (!value || *value > 9e18) return std::nullopt;
  // "4.01 GiB" is no whole number of bytes and means the nearest; half a byte means nothing.
  if (*value < 1024 && *value != std::floor(*value)) return std::nullopt;
  return Bytes(std::llround(*value));
}

std::optional<Seconds> parse_duration(std::string_view text) {
  const auto value = parse_with_unit(text, kTimeUnits);
  if (!value) return std::nullopt;
  return Seconds(*value);
}

std::optional<BytesPerSecond> parse_rate(std::string_view text) {
  if (!text.ends_with("/s")) return std::nullopt;
  text.remove_suffix(2);
  const auto value = parse_with_unit(text, kByteUnits);
  if (!value) return std::nullopt;
  return BytesPerSecond(*value);
}

std::string format_bytes(Bytes value) {
  static constexpr std::array<const char*, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  auto number = static_cast<double>(value.count());
  std::size_t name = 0;
  for (; std::abs(number) >= 1024 && name + 1 < kNames.size(); ++name) number /= 1024;
  return name == 0 ? fmt::format("{} B", value.count())
                   : fmt::format("{:.2f} {}", number, kNames[name]);
}

std::string format_duration(Seconds value) {
  constexpr double kHour = 3600, kDay = 24 * kHour;
  const double seconds = value.count(), size = std::abs(seconds);
  const char* const sign = seconds < 0 ? "-" : "";
  if (size >= 2 * kDay && size < 1e12) {
    const auto hours = std::llround(size / kHour);
    const auto days = hours / 24;
    return fmt::format("{}{} d {} h", sign, format_figure(double(days), 15), hours % 24);
  }
  if (size >= kHour && size < 2 * kDay) {
    const auto minutes = std::llround(size / 60);
    return fmt::format("{}{} h {} min", sign, minutes / 60, minutes % 60);
  }
  // A unit is the next one where three digits round to it: 0.9996 s are 1 s, not 1000 ms.
  constexpr double kNearly = 0.9995;
  if (size >= kNearly) return format_figure(seconds, 3) + " s";
  if (size >= kNearly * 1e-3) return format_figure(seconds * 1e3, 3) + " ms";
  if (size >= kNearly * 1e-6) return format_figure(seconds * 1e6, 3) + " us";
  return format_figure(seconds * 1e9, 3) + " ns";
}

}  // namespace weir
