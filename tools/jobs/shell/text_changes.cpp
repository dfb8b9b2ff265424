// Changes of a text by pattern, place and case.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/text_changes.hpp"

#include <fnmatch.h>

#include <algorithm>

namespace weir {
namespace {

constexpr std::size_t kLongest = 4096;  // every part of a text is tried

using Filled = std::function<std::optional<std::string>(std::string_view)>;
using Sum = std::function<std::optional<std::int64_t>(std::string_view)>;

bool matches(const std::string& pattern, const std::string& text) {
  return ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

// Without the shortest or longest part at its beginning or end that the pattern matches.
std::string without(const std::string& text, const std::string& pattern, bool at_end,
                    bool longest) {
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const std::size_t length = longest ? text.size() - i : i;
    const std::size_t at = at_end ? text.size() - length : 0;
    if (!matches(pattern, text.substr(at, length))) continue;
    return at_end ? text.substr(0, at) : text.substr(length);
  }
  return text;
}

// The first part that matches, or each, from the left and as long as can be, is replaced.
std::string replaced(const std::string& text, const std::string& pattern, const std::string& by,
                     bool each) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = text.size() - at;
    while (length > 0 && !matches(pattern, text.substr(at, length))) --length;
    if (length == 0) {
      result += text[at++];
      continue;
    }
    result += by;
    at += length;
    if (!each) return result + text.substr(at);
  }
  return result;
}

// ":first" or ":first:length"; below 0 they count from the end.
std::optional<std::string> part(const std::string& text, std::string_view places, const Sum& sum) {
  const std::size_t colon = places.find(':');
  const auto size = static_cast<std::int64_t>(text.size());
  auto first = sum(places.substr(0, colon));
  auto length = colon == places.npos ? std::optional(size) : sum(places.substr(colon + 1));
  if (!first || !length) return std::nullopt;
  if (*first < 0) *first += size;
  if (*first < 0 || *first > size) return "";
  const std::int64_t end = *length < 0 ? size + *length : std::min(*first + *length, size);
  if (end < *first) return std::nullopt;
  return text.substr(static_cast<std::size_t>(*first), static_cast<std::size_t>(end - *first));
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
                                        const Filled& filled, const Sum& sum) {
  if (change.empty() || text.size() > kLongest) return std::nullopt;
  const char kind = change[0];
  const bool twice = change.size() > 1 && change[1] == kind;
  const std::string_view rest = change.substr(twice ? 2 : 1);
  if (kind == ',' || kind == '^')
    return rest.empty() ? std::optional(turned(text, kind == '^', twice)) : std::nullopt;
  if (kind == '#' || kind == '%') {
    const auto pattern = filled(rest);
    if (!pattern) return std::nullopt;
    return without(text, *pattern, kind == '%', twice);
  }
  if (kind == '/') {
    const std::size_t slash = rest.find('/');
    const auto pattern = filled(rest.substr(0, slash));
    const auto by =
        slash == rest.npos ? std::optional<std::string>("") : filled(rest.substr(slash + 1));
    if (!pattern || !by || pattern->empty()) return std::nullopt;
    return replaced(text, *pattern, *by, twice);
  }
  return kind == ':' ? part(text, rest, sum) : std::nullopt;
}

}  // namespace weir
