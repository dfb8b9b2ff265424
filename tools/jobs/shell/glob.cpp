// Thompson's simulation, without building the automaton: place i is reached where the pattern's
// first i places have taken the text so far.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/glob.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <utility>

#include "plan/text/utf8.hpp"

namespace weir {
namespace {

constexpr char32_t kAscii = 128;

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

}  // namespace

bool Glob::Characters::has(char32_t character) const {
  if (character < kAscii) return ascii[character];
  // The last range that begins at or before it.
  const auto behind =
      std::ranges::upper_bound(named, character, {}, [](const auto& range) { return range.first; });
  const bool in = behind != named.begin() && character <= std::prev(behind)->second;
  return in != others;
}

void Glob::Characters::add(char32_t first, char32_t last) {
  for (char32_t c = first; c <= last && c < kAscii; ++c) ascii.set(c);
  if (last >= kAscii && last >= first) named.emplace_back(std::max(first, kAscii), last);
}

void Glob::Characters::sort() {
  std::ranges::sort(named);
  std::vector<std::pair<char32_t, char32_t>> apart;
  for (const auto& range : named) {
    if (apart.empty() || range.first > apart.back().second) {
      apart.push_back(range);
    } else {
      apart.back().second = std::max(apart.back().second, range.second);
    }
  }
  named = std::move(apart);
}

std::optional<std::pair<Glob::Characters, std::size_t>> Glob::bracket(std::string_view pattern) {
  std::size_t at = 1;
  const bool denies = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (denies) ++at;
  Characters set;
  const auto take = [&] {
    const Utf8Character character = first_character(pattern.substr(at));
    at += character.bytes;
    return character.number;
  };
  for (bool first = true; at < pattern.size(); first = false) {
    if (pattern[at] == ']' && !first) {
      set.sort();
      if (denies) set.ascii.flip();
      set.others = denies;
      return std::pair(std::move(set), at + 1);
    }
    if (pattern.substr(at).starts_with("[:")) {
      const std::size_t end = pattern.find(":]", at);
      if (end == pattern.npos) return std::nullopt;
      for (const auto& [name, holds] : kClasses) {
        if (pattern.substr(at + 2, end - at - 2) != name) continue;
        for (int c = 0; c < 128; ++c) set.ascii[static_cast<std::size_t>(c)] = holds(c) != 0;
      }
      at = end + 2;
      continue;
    }
    if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
    const char32_t low = take();
    char32_t high = low;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      ++at;
      high = take();
    }
    set.add(low, high);
  }
  return std::nullopt;
}

Glob::Glob(std::string_view pattern, Budget& budget) : budget_(budget) {
  budget.elements(pattern.size());
  for (std::size_t at = 0; at < pattern.size();) {
    Place place;
    if (pattern[at] == '*') {
      place.star = true;
      ++at;
      if (!places_.empty() && places_.back().star) continue;  // two stars are one
    } else if (pattern[at] == '?') {
      place.takes.ascii.set();
      place.takes.others = true;
      ++at;
    } else if (auto set = pattern[at] == '[' ? bracket(pattern.substr(at)) : std::nullopt) {
      place.takes = std::move(set->first);
      at += set->second;
    } else {
      if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
      const auto [character, bytes] = first_character(pattern.substr(at));
      place.takes.add(character, character);
      at += bytes;
    }
    places_.push_back(std::move(place));
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
  for (std::size_t taken = 0;;) {
    if (seen[last] == round) {
      found = taken;
      if (which == Length::shortest) return found;
    }
    const std::optional<Utf8Character> c = next(taken);
    if (!c || now.empty()) return found;
    taken += c->bytes;
    budget_.steps(now.size());
    ++round;
    then.clear();
    for (const std::size_t i : now) {
      if (i == last) continue;
      if (place(i).star) {
        reach(then, i);
      } else if (place(i).takes.has(c->number)) {
        reach(then, i + 1);
      }
    }
    now.swap(then);
  }
}

std::optional<std::size_t> Glob::prefix(std::string_view text, Length which) const {
  const auto next = [text](std::size_t taken) -> std::optional<Utf8Character> {
    if (taken == text.size()) return std::nullopt;
    return first_character(text.substr(taken));
  };
  return run(next, which, false);
}

std::optional<std::size_t> Glob::suffix(std::string_view text, Length which) const {
  const auto next = [text](std::size_t taken) -> std::optional<Utf8Character> {
    if (taken == text.size()) return std::nullopt;
    return last_character(text.substr(0, text.size() - taken));
  };
  return run(next, which, true);
}

bool Glob::matches(std::string_view text) const {
  return prefix(text, Length::longest) == text.size();
}

}  // namespace weir
