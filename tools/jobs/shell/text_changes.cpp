// Changes of a text by pattern, place and case.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/text_changes.hpp"

#include <algorithm>

#include "plan/text/utf8.hpp"
#include "tools/jobs/shell/glob.hpp"

namespace weir {
namespace {

using Filled = std::function<std::optional<std::string>(std::string_view)>;
using Sum = std::function<std::optional<std::int64_t>(std::string_view)>;

// Without the shortest or longest part at its beginning or end that the pattern matches.
std::string without(const std::string& text, const Glob& pattern, bool at_end, bool longest) {
  const auto which = longest ? Glob::Length::longest : Glob::Length::shortest;
  const auto length = at_end ? pattern.suffix(text, which) : pattern.prefix(text, which);
  if (!length) return text;
  return at_end ? text.substr(0, text.size() - *length) : text.substr(*length);
}

// The first part that matches, or each, from the left and as long as can be, is replaced.
std::string replaced(std::string_view text, const Glob& pattern, const std::string& by, bool each,
                     Budget& budget) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    budget.steps(1);
    const std::size_t length = pattern.prefix(text.substr(at), Glob::Length::longest).value_or(0);
    if (length == 0 && pattern.is_anywhere()) return result.append(text.substr(at));
    if (length == 0) {
      const std::size_t bytes = first_character(text.substr(at)).bytes;
      result += text.substr(at, bytes);
      at += bytes;
      continue;
    }
    budget.bytes(by.size());
    result += by;
    at += length;
    if (!each) return result.append(text.substr(at));
  }
  return result;
}

// ":first" or ":first:length" in characters; below 0 they count from the end.
std::optional<std::string> part(const std::string& text, std::string_view places, const Sum& sum) {
  const std::size_t colon = places.find(':');
  const auto size = static_cast<std::int64_t>(utf8_length(text));
  auto first = sum(places.substr(0, colon));
  auto length = colon == places.npos ? std::optional(size) : sum(places.substr(colon + 1));
  if (!first || !length) return std::nullopt;
  if (*first < 0) *first += size;
  if (*first < 0 || *first > size) return "";
  // No sum of the two: both may be as large as the type has.
  const std::int64_t end = *length < 0 ? size + *length : *first + std::min(*length, size - *first);
  if (end < *first) return std::nullopt;
  const std::size_t begin = utf8_bytes(text, static_cast<std::size_t>(*first));
  return text.substr(begin, utf8_bytes(std::string_view(text).substr(begin),
                                       static_cast<std::size_t>(end - *first)));
}

std::string turned(std::string text, bool upper, bool all) {
  for (char& c : text) {
    const bool turns = upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z';
    if (turns) c = static_cast<char>(c ^ 0x20);
    if (!all) break;
  }
  return text;
}

}  // namespace

std::optional<std::string> changed_text(const std::string& text, std::string_view change,
                                        const Filled& filled, const Sum& sum, Budget& budget) {
  if (change.empty()) return std::nullopt;
  budget.bytes(text.size());
  const char kind = change[0];
  const bool twice = change.size() > 1 && change[1] == kind;
  const std::string_view rest = change.substr(twice ? 2 : 1);
  if (kind == ',' || kind == '^')
    return rest.empty() ? std::optional(turned(text, kind == '^', twice)) : std::nullopt;
  if (kind == '#' || kind == '%') {
    const auto pattern = filled(rest);
    if (!pattern) return std::nullopt;
    return without(text, Glob(*pattern, budget), kind == '%', twice);
  }
  if (kind == '/') {
    const std::size_t slash = rest.find('/');
    const auto pattern = filled(rest.substr(0, slash));
    const auto by =
        slash == rest.npos ? std::optional<std::string>("") : filled(rest.substr(slash + 1));
    if (!pattern || !by || pattern->empty()) return std::nullopt;
    return replaced(text, Glob(*pattern, budget), *by, twice, budget);
  }
  return kind == ':' ? part(text, rest, sum) : std::nullopt;
}

}  // namespace weir
