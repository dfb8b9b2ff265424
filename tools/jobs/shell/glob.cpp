// Thompson's simulation, without building the automaton: place i is reached where the pattern's
// first i places have taken the text so far.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/glob.hpp"

#include <array>
#include <cctype>
#include <utility>

namespace weir {
namespace {

using Set = std::bitset<256>;

std::size_t index_of(char c) { return static_cast<unsigned char>(c); }

constexpr std::array<std::pair<std::string_view, int (*)(int)>, 10> kClasses{
    {{"alnum", &std::isalnum},
     {"alpha", &std::isalpha},
     {"blank", &std::isblank},
     {"cntrl", &std::iscntrl},
     {"digit", &std::isdigit},
     {"lower", &std::islower},
     {"punct", &std::ispunct},
     {"space", &std::isspace},
     {"upper", &std::isupper},
     {"xdigit", &std::isxdigit}}};

// "[...]" at the beginning of the pattern, and behind it; nullopt where the bracket is none.
std::optional<std::pair<Set, std::size_t>> bracket(std::string_view pattern) {
  std::size_t at = 1;
  const bool denies = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (denies) ++at;
  Set set;
  for (bool first = true; at < pattern.size(); first = false) {
    if (pattern[at] == ']' && !first) return std::pair(denies ? ~set : set, at + 1);
    if (pattern.substr(at).starts_with("[:")) {
      const std::size_t end = pattern.find(":]", at);
      if (end == pattern.npos) return std::nullopt;
      for (const auto& [name, holds] : kClasses) {
        if (pattern.substr(at + 2, end - at - 2) != name) continue;
        for (int c = 0; c < 128; ++c) set[static_cast<std::size_t>(c)] = holds(c) != 0;
      }
      at = end + 2;
      continue;
    }
    if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
    const std::size_t low = index_of(pattern[at++]);
    std::size_t high = low;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      high = index_of(pattern[at + 1]);
      at += 2;
    }
    for (std::size_t c = low; c <= high; ++c) set.set(c);
  }
  return std::nullopt;
}

}  // namespace

Glob::Glob(std::string_view pattern, Budget& budget) : budget_(budget) {
  budget.elements(pattern.size());
  for (std::size_t at = 0; at < pattern.size();) {
    Place place;
    if (pattern[at] == '*') {
      place.star = true;
      ++at;
      if (!places_.empty() && places_.back().star) continue;  // two stars are one
    } else if (pattern[at] == '?') {
      place.takes.set();
      ++at;
    } else if (const auto set = pattern[at] == '[' ? bracket(pattern.substr(at)) : std::nullopt) {
      place.takes = set->first;
      at += set->second;
    } else {
      if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
      place.takes.set(index_of(pattern[at++]));
    }
    places_.push_back(place);
  }
}

template <class Text>
std::optional<std::size_t> Glob::run(const Text& next, Length which, bool reversed) const {
  const std::size_t last = places_.size();
  const auto place = [&](std::size_t i) -> const Place& {
    return places_[reversed ? last - 1 - i : i];
  };
  std::vector<std::size_t> now, then;
  std::vector<std::size_t> seen(last + 1, 0);
  std::size_t round = 1;
  std::optional<std::size_t> found;
  // A star may take nothing, so whoever stands before it stands behind it too.
  const auto reach = [&](std::vector<std::size_t>& places, std::size_t i) {
    for (; seen[i] != round; ++i) {
      seen[i] = round;
      places.push_back(i);
      if (i == last || !place(i).star) return;
    }
  };
  reach(now, 0);
  for (std::size_t taken = 0;; ++taken) {
    if (seen[last] == round) {
      found = taken;
      if (which == Length::shortest) return found;
    }
    const std::optional<char> c = next(taken);
    if (!c || now.empty()) return found;
    budget_.steps(now.size());
    ++round;
    then.clear();
    for (const std::size_t i : now) {
      if (i == last) continue;
      if (place(i).star) {
        reach(then, i);
      } else if (place(i).takes[index_of(*c)]) {
        reach(then, i + 1);
      }
    }
    now.swap(then);
  }
}

std::optional<std::size_t> Glob::prefix(std::string_view text, Length which) const {
  const auto next = [text](std::size_t i) -> std::optional<char> {
    return i < text.size() ? std::optional(text[i]) : std::nullopt;
  };
  return run(next, which, false);
}

std::optional<std::size_t> Glob::suffix(std::string_view text, Length which) const {
  const auto next = [text](std::size_t i) -> std::optional<char> {
    return i < text.size() ? std::optional(text[text.size() - 1 - i]) : std::nullopt;
  };
  return run(next, which, true);
}

bool Glob::matches(std::string_view text) const {
  return prefix(text, Length::longest) == text.size();
}

}  // namespace weir
