// Numbers as people read them: "517,000", never "5.17e+05".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

// Rounded to so many significant digits, with a comma before each three of a whole part's digits:
// 154600 by 4 is "154,600", 0.012345 by 3 is "0.0123". Beyond 1e15 and below 1e-5 it has an
// exponent. Never parsed back by us.
[[nodiscard]] std::string format_figure(double value, int digits);
// All digits of a whole number: "1,234,567".
[[nodiscard]] std::string format_whole(double value);

}  // namespace weir
