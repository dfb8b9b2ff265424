// The longest common subsequence of lines by its table, between the ends that are equal; changes
// that stand close are one hunk.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/unified_diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace weir {
namespace {

constexpr std::size_t kContext = 3;
constexpr std::size_t kLargestTable = std::size_t{1} << 24;  // more is shown as one change

using Lines = std::vector<std::string_view>;

// With their line ends, so that a last line without one is told from one with it.
Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t length = end == text.npos ? text.size() : end + 1;
    lines.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

struct Step {
  char kind;  // ' ', '-' or '+'
  std::string_view line;
};

// The middle part, from its longest common subsequence: table[i][j] is its length of the lines from
// i and j on.
void add_middle(const Lines& a, const Lines& b, std::vector<Step>& steps) {
  const std::size_t width = b.size() + 1;
  std::vector<int> table;
  if ((a.size() + 1) * width <= kLargestTable) {
    table.resize((a.size() + 1) * width);
    for (std::size_t i = a.size(); i-- > 0;) {
      for (std::size_t j = b.size(); j-- > 0;) {
        table[i * width + j] = a[i] == b[j]
                                   ? table[(i + 1) * width + j + 1] + 1
                                   : std::max(table[(i + 1) * width + j], table[i * width + j + 1]);
      }
    }
  }
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const bool both = i < a.size() && j < b.size();
    if (both && !table.empty() && a[i] == b[j]) {
      steps.push_back({' ', a[i++]});
      ++j;
      continue;
    }
    const bool takes_a =
        j == b.size() ||
        (i < a.size() && (table.empty() || table[(i + 1) * width + j] >= table[i * width + j + 1]));
    if (takes_a) {
      steps.push_back({'-', a[i++]});
    } else {
      steps.push_back({'+', b[j++]});
    }
  }
}

std::vector<Step> steps_of(Lines a, Lines b) {
  std::size_t first = 0, last = 0;
  const std::size_t shorter = std::min(a.size(), b.size());
  while (first < shorter && a[first] == b[first]) ++first;
  while (last < shorter - first && a[a.size() - 1 - last] == b[b.size() - 1 - last]) ++last;
  std::vector<Step> steps;
  for (std::size_t i = 0; i < first; ++i) steps.push_back({' ', a[i]});
  const auto middle = [&](const Lines& l) {
    return Lines(l.begin() + static_cast<std::ptrdiff_t>(first),
                 l.end() - static_cast<std::ptrdiff_t>(last));
  };
  add_middle(middle(a), middle(b), steps);
  for (std::size_t i = a.size() - last; i < a.size(); ++i) steps.push_back({' ', a[i]});
  return steps;
}

// "@@ -first,count +first,count @@" and the lines; a range without lines is named by the line
// before it.
std::string hunk(const std::vector<Step>& steps, std::size_t begin, std::size_t end) {
  std::size_t before = 1, after = 1, old_count = 0, new_count = 0;
  for (std::size_t i = 0; i < begin; ++i) {
    before += steps[i].kind != '+';
    after += steps[i].kind != '-';
  }
  std::string lines;
  for (std::size_t i = begin; i < end; ++i) {
    old_count += steps[i].kind != '+';
    new_count += steps[i].kind != '-';
    lines += fmt::format("{}{}", steps[i].kind, steps[i].line);
    if (!steps[i].line.ends_with('\n')) lines += "\n\\ No newline at end of file\n";
  }
  return fmt::format("@@ -{},{} +{},{} @@\n{}", before - (old_count == 0), old_count,
                     after - (new_count == 0), new_count, lines);
}

}  // namespace

std::string unified_diff(std::string_view before, std::string_view after, const std::string& file) {
  if (before == after) return "";
  const std::vector<Step> steps = steps_of(lines_of(before), lines_of(after));
  std::string text = fmt::format("--- {}\n+++ {}\n", file, file);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind == ' ') continue;
    // A hunk goes on while the next change stands within the context of both.
    std::size_t last = i;
    for (std::size_t k = i + 1; k < steps.size() && k <= last + 2 * kContext + 1; ++k) {
      if (steps[k].kind != ' ') last = k;
    }
    const std::size_t begin = i > kContext ? i - kContext : 0;
    text += hunk(steps, begin, std::min(steps.size(), last + kContext + 1));
    i = last;
  }
  return text;
}

}  // namespace weir
