// A baseline's place in a search's answer, in words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sim/search/result.hpp"

namespace weir {

// None of the plans found has a shorter step than the baseline; it need not be a candidate itself.
[[nodiscard]] bool is_beaten_by_none(const SweepResult& result);

// "place 3 among 9 plans", itself counted; "slower than the 5 best" where a search that lists its
// best alone knows no more. Empty where it has no place.
[[nodiscard]] std::string place_in_words(const SweepResult& result);

// "on as many devices", or "on 8 devices where that has 16", that being the best plan.
[[nodiscard]] std::string devices_in_words(const Baseline& baseline, const Ranked& best);

}  // namespace weir
