// Three answers, and the probability beside them.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/fits.hpp"

#include <cmath>
#include <numbers>

#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr Names<Fits, 3> kFits{{{Fits::yes, "yes"}, {Fits::maybe, "maybe"}, {Fits::no, "no"}}};

constexpr double kUpperQuantile = 1.6449;  // of a normal law, at 95 %

double normal_law(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

}  // namespace

std::string_view to_string(Fits fits) { return name_of(kFits, fits); }

Fits fits(const MemoryBand& band, Bytes limit) {
  if (band.upper <= limit) return Fits::yes;
  return band.expected > limit ? Fits::no : Fits::maybe;
}

double fits_probability(const MemoryBand& band, Bytes limit) {
  if (band.upper <= band.expected || band.expected.count() == 0)
    return band.expected <= limit ? 1 : 0;
  if (limit.count() <= 0) return 0;
  const double sigma = std::log(band.upper / band.expected) / kUpperQuantile;
  return normal_law(std::log(limit / band.expected) / sigma);
}

}  // namespace weir
