// Whether a device's memory holds a peak of which an expectation and an upper bound are known.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "plan/words/units.hpp"

namespace weir {

enum class Fits : std::uint8_t { yes, maybe, no };  // from the best to the worst
[[nodiscard]] std::string_view to_string(Fits fits);

struct MemoryBand {
  Bytes expected{0};
  Bytes upper{0};  // one peak in twenty is above; at least `expected`
};

// yes: the upper bound fits; no: not even the expectation does; maybe: between.
[[nodiscard]] Fits fits(const MemoryBand& band, Bytes limit);

// What is missed of memory are factors, so the peak is taken to be lognormal: its median the
// expectation, its 95 % quantile the upper bound. With ln U / E = 1.645 sigma,
//   P(peak <= L) = Phi(ln(L / E) / sigma);
// 1 or 0 where the two are the same.
[[nodiscard]] double fits_probability(const MemoryBand& band, Bytes limit);

}  // namespace weir
