// Words for the three answers.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/fit_text.hpp"

#include <fmt/format.h>

namespace weir {
namespace {

std::string verdict(const Forecast& f) {
  switch (f.fits()) {
    case Fits::yes:
      return "fits";
    case Fits::maybe:
      return fmt::format("may not fit ({:.0f} % that it does)", 100 * f.fits_probability());
    case Fits::no:
      break;
  }
  return "does not fit";
}

}  // namespace

std::string fit_word(const Forecast& f) {
  if (f.fits() != Fits::maybe) return std::string(to_string(f.fits()));
  return fmt::format("{:.0f} %", 100 * f.fits_probability());
}

std::string describe_fit(const Forecast& f) {
  return fmt::format("memory: {} expected, {} at most, of {}: {}", format_bytes(f.peak_memory()),
                     format_bytes(f.peak_memory_upper()), format_bytes(*f.memory_limit),
                     verdict(f));
}

}  // namespace weir
