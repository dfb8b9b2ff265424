// Edit distances, row by row.
// SPDX-License-Identifier: Apache-2.0
#include "plan/words/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace weir {
namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      // Damerau's distance: a letter changed, one more, one less, or two neighbours swapped.
      row[j] = std::min({changed, above[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    // `row` is the next one to write over.
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

// Whether it is the word with others before or behind it, as dgx-h200 is h200.
bool has_part(std::string_view candidate, std::string_view word) {
  for (std::size_t at = candidate.find(word); !word.empty() && at != candidate.npos;
       at = candidate.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || candidate[at - 1] == '-';
    if (begins && (end == candidate.size() || candidate[end] == '-')) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
  std::optional<std::string> best;
  std::size_t least = 0;
  for (const std::string& candidate : known) {
    const std::size_t far = distance(word, candidate);
    // More than a third of the letters wrong is another word.
    if (far * 3 > std::max(word.size(), candidate.size()) || (best && far >= least)) continue;
    best = candidate;
    least = far;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  std::vector<std::string_view> longer;
  for (const std::string& candidate : known)
    if (has_part(candidate, word)) longer.emplace_back(candidate);
  constexpr std::size_t kMost = 4;
  if (!longer.empty() && longer.size() <= kMost) {
    std::string all(longer[0]);
    for (std::size_t i = 1; i < longer.size(); ++i)
      all += fmt::format("{}{}", i + 1 < longer.size() ? ", " : " or ", longer[i]);
    return fmt::format("; did you mean {}?", all);
  }
  const auto meant = nearest(word, known);
  return meant ? fmt::format("; did you mean {}?", *meant) : "";
}

}  // namespace weir
