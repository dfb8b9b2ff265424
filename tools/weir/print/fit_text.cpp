// Words for the three answers.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/print/fit_text.hpp"

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

// Where a host does not surely hold what is kept there, that decides too.
std::string host_clause(const Forecast& f) {
  if (f.host_fits() == Fits::yes) return "";
  return fmt::format(", and with a node's host {}, {} at most, of {}", format_bytes(f.host->held()),
                     format_bytes(f.host->band().upper), format_bytes(f.host->memory));
}

}  // namespace

std::string describe_fit(const Forecast& f) {
  const std::string judged = host_clause(f) + ": " + verdict(f);
  if (f.rank_memory_limits.empty()) {
    return fmt::format("memory: {} expected, {} at most, of {}{}", format_bytes(f.peak_memory()),
                       format_bytes(f.peak_memory_upper()), format_bytes(*f.memory_limit), judged);
  }
  // Of ranks with different memory, the one that is nearest to its limit, or furthest above it.
  const auto share = [&f](std::size_t r) {
    return static_cast<double>(f.memory[r].upper.count()) /
           static_cast<double>(f.memory_limit_of(r)->count());
  };
  std::size_t tightest = 0;
  for (std::size_t r = 1; r < f.memory.size(); ++r)
    if (share(r) > share(tightest)) tightest = r;
  const RankMemory& rank = f.memory[tightest];
  return fmt::format("memory: rank {} is tightest, {} expected, {} at most, of {}{}", tightest,
                     format_bytes(rank.peak), format_bytes(rank.upper),
                     format_bytes(*f.memory_limit_of(tightest)), judged);
}

}  // namespace weir
