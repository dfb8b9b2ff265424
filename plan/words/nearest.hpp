// "Did you mean": the known word that a mistyped one is nearest to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

// By the fewest letters inserted, left out, changed or swapped with their neighbour (the restricted
// Damerau-Levenshtein distance), the first of equals; nullopt where more than a third of the longer
// word differs.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word,
                                                 const std::vector<std::string>& known);
// The end of a complaint: "; did you mean gpipe?", or nothing. Of a word that is a part of others,
// between hyphens, these, where they are four at most: h100 is dgx-h100, h100-96gb or h100-p5.
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       const std::vector<std::string>& known);

}  // namespace weir
