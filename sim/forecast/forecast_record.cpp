// Peaks and verdicts over all ranks.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast/forecast_record.hpp"

#include <algorithm>

namespace weir {

Bytes Forecast::peak_memory() const { return peak_memory(MemoryCount::device); }

Bytes Forecast::peak_memory(MemoryCount count) const {
  Bytes peak{0};
  for (const RankMemory& rank : memory) peak = std::max(peak, rank.peak_as(count));
  return peak;
}

Bytes Forecast::peak_memory_upper() const {
  Bytes upper{0};
  for (const RankMemory& rank : memory) upper = std::max(upper, rank.upper);
  return upper;
}

std::optional<Bytes> Forecast::memory_limit_of(std::size_t rank) const {
  if (!memory_limit || rank_memory_limits.empty()) return memory_limit;
  return std::min(*memory_limit, rank_memory_limits[rank]);
}

Fits Forecast::devices_fit() const {
  Fits worst = Fits::yes;
  if (!memory_limit) return worst;
  for (std::size_t r = 0; r < memory.size(); ++r) {
    const Bytes limit = *memory_limit_of(r);
    Fits its = weir::fits({memory[r].peak, memory[r].upper}, limit);
    // What does not fit as one software holds it may as another does.
    if (its == Fits::no && r < leanest.size() && leanest[r] <= limit) its = Fits::maybe;
    worst = std::max(worst, its);
  }
  return worst;
}

double Forecast::fits_probability() const {
  double least = host ? weir::fits_probability(host->band(), host->memory) : 1;
  if (!memory_limit) return least;
  for (std::size_t r = 0; r < memory.size(); ++r) {
    const MemoryBand band{memory[r].peak, memory[r].upper};
    least = std::min(least, weir::fits_probability(band, *memory_limit_of(r)));
  }
  return least;
}

}  // namespace weir
