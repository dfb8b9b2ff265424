// Quantiles of lengths.
// SPDX-License-Identifier: Apache-2.0
#include "plan/words/lengths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weir {

namespace {

constexpr std::size_t kQuantiles = 101;

// Of x = length / most with density c e^(k x) on (0, 1].
double mean_of(double k) {
  if (std::abs(k) < 1e-6) return 0.5 + k / 12;  // the first terms of the series
  return 1 / (1 - std::exp(-k)) - 1 / k;
}

// Its quantile u.
double quantile_of(double k, double u) {
  if (std::abs(k) < 1e-6) return u;
  return k > 0 ? 1 + std::log(u + (1 - u) * std::exp(-k)) / k : std::log1p(u * std::expm1(k)) / k;
}

}  // namespace

std::string_view to_string(RowsOf rows) { return name_of(kRowsOf, rows); }

std::optional<RowsOf> parse_rows_of(std::string_view text) { return named(kRowsOf, text); }

std::vector<int> quantiles_of(std::vector<int> lengths) {
  std::ranges::sort(lengths);
  if (lengths.size() <= kQuantiles) return lengths;
  std::vector<int> quantiles;
  for (std::size_t q = 0; q < kQuantiles; ++q) {
    const auto place =
        static_cast<double>(q) / (kQuantiles - 1) * static_cast<double>(lengths.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, lengths.size() - 1);
    const auto low = static_cast<double>(lengths[below]),
               high = static_cast<double>(lengths[above]);
    quantiles.push_back(
        static_cast<int>(std::lround(low + (place - std::floor(place)) * (high - low))));
  }
  return quantiles;
}

std::optional<std::vector<int>> quantiles_of(double mean, int most) {
  constexpr double kSteepest = 500;  // e to that is still a number
  const double share = mean / static_cast<double>(most);
  double low = -kSteepest, high = kSteepest;
  if (!(share > mean_of(low) && share < mean_of(high))) return std::nullopt;
  // The mean grows with k: halved until nothing is between.
  for (int i = 0; i < 200; ++i) {
    const double k = (low + high) / 2;
    (mean_of(k) < share ? low : high) = k;
  }
  std::vector<int> quantiles;
  for (std::size_t q = 0; q < kQuantiles; ++q) {
    const double u = static_cast<double>(q) / (kQuantiles - 1);
    const double length = quantile_of(low, u) * static_cast<double>(most);
    quantiles.push_back(std::clamp(static_cast<int>(std::lround(length)), 1, most));
  }
  return quantiles;
}

int devices_of_sequence(std::int64_t tokens, std::int64_t most) {
  int devices = 1;
  while (most * devices < tokens) devices *= 2;
  return devices;
}

std::string to_text(const SequenceLengths& lengths) {
  if (!lengths.known()) return "rows of one sequence each";
  const std::string dynamic =
      lengths.dynamic_cp > 0 ? fmt::format(", a device up to {} tokens", lengths.dynamic_cp) : "";
  return fmt::format("lengths {} to {}, {}{}", lengths.quantiles.front(), lengths.quantiles.back(),
                     to_string(lengths.rows), dynamic);
}

}  // namespace weir
