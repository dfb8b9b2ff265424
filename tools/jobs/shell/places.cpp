// One pass marks quotes and comments; places are then found by their words.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/places.hpp"

#include <algorithm>
#include <cctype>

#include "tools/jobs/shell/tokens.hpp"

namespace weir {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

bool is_blank(char c) { return kBlanks.find(c) != std::string_view::npos; }
bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

ScriptPlaces::ScriptPlaces(std::string_view text) : text_(text), marks_(text.size() + 1, kPlain) {
  char state = kPlain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool word_begins = i == 0 || is_blank(text[i - 1]) || text[i - 1] == ';';
    if (state == kComment && c == '\n') state = kPlain;
    if (state == kPlain && c == '#' && word_begins) state = kComment;
    marks_[i] = state;
    if (state == kComment) continue;
    if (c == '\\') {
      ++i;  // what follows stands for itself
      if (i < text.size()) marks_[i] = state;
    } else if (c == '\'' && state == kPlain) {
      const std::size_t end = std::min(text.find('\'', i + 1), text.size() - 1);
      for (; i < end; ++i) marks_[i + 1] = kPlain;
    } else if (c == '"') {
      state = state == kQuoted ? kPlain : kQuoted;
    }
  }
  marks_[text.size()] = state;
}

TextPart ScriptPlaces::line_of(std::size_t at) const {
  const std::size_t before = at == 0 ? text_.npos : text_.rfind('\n', at - 1);
  return {before == text_.npos ? 0 : before + 1, std::min(text_.find('\n', at), text_.size())};
}

// Behind "=", ":" of a recipe, blanks and line ends that a backslash hides; where no value follows,
// `at` itself.
std::size_t ScriptPlaces::value_begin(std::size_t at) const {
  std::size_t i = at;
  if (i < text_.size() && text_[i] == '=') return i + 1;
  if (i < text_.size() && text_[i] == ':') ++i;
  while (i < text_.size() && (text_[i] == ' ' || text_[i] == '\t' ||
                              (text_[i] == '\\' && text_.substr(i + 1, 1) == "\n"))) {
    i += text_[i] == '\\' ? 2 : 1;
  }
  const bool ends = i >= text_.size() || is_blank(text_[i]) || text_[i] == ')' || text_[i] == '#' ||
                    text_.substr(i, 2) == "--" || (in_double_quotes(at) && text_[i] == '"');
  return ends ? at : i;
}

std::size_t ScriptPlaces::value_end(std::size_t at) const {
  const bool quoted = at > 0 && in_double_quotes(at) && marks_[at - 1] == kQuoted;
  std::size_t i = at;
  while (i < text_.size()) {
    const char c = text_[i];
    if (is_blank(c) || (quoted && c == '"') || (!quoted && (c == ')' || c == ';'))) break;
    std::size_t end = i + 1;
    if (c == '$' || c == '`' || c == '\'' || c == '"') {
      end = shell_end_of(text_, i);
      // "$NAME" without brackets ends with its name, as any letter does.
      if (end == text_.npos || end <= i) end = i + 1;
    }
    i = end;
  }
  return i;
}

std::vector<ArgumentPlace> ScriptPlaces::arguments(std::string_view name,
                                                   std::size_t values) const {
  std::vector<ArgumentPlace> places;
  const auto same = [&](std::size_t at) {
    if (at + 2 + name.size() > text_.size()) return false;
    for (std::size_t k = 0; k < name.size(); ++k) {
      const char c = text_[at + 2 + k];
      if ((c == '_' ? '-' : c) != name[k]) return false;
    }
    return true;
  };
  for (std::size_t at = text_.find("--"); at != text_.npos; at = text_.find("--", at + 2)) {
    const std::size_t end = at + 2 + name.size();
    if (marks_[at] == kComment || !same(at)) continue;
    const std::string_view before = "\"'(=";
    if (at > 0 && !is_blank(text_[at - 1]) && before.find(text_[at - 1]) == before.npos) continue;
    const std::string_view behind = "=\"':)\\";
    if (end < text_.size() && !is_blank(text_[end]) && behind.find(text_[end]) == behind.npos)
      continue;
    ArgumentPlace place{{at, end}, {end, end}};
    for (std::size_t v = 0; v < values; ++v) {
      const std::size_t begin = value_begin(place.value.end);
      if (begin == place.value.end) break;
      place.value = {v == 0 ? begin : place.value.begin, value_end(begin)};
    }
    places.push_back(place);
  }
  return places;
}

std::vector<TextPart> ScriptPlaces::assignments(std::string_view name) const {
  std::vector<TextPart> places;
  const std::string word = std::string(name) + "=";
  for (std::size_t at = text_.find(word); at != text_.npos; at = text_.find(word, at + 1)) {
    if (marks_[at] == kComment || (at > 0 && !is_blank(text_[at - 1]) && text_[at - 1] != ';'))
      continue;
    const std::size_t begin = at + word.size();
    if (text_.substr(begin, 1) == "=" || text_.substr(begin, 1) == "(") continue;
    places.push_back({begin, value_end(begin)});
  }
  return places;
}

std::vector<TextPart> ScriptPlaces::programs() const {
  std::vector<TextPart> places;
  for (std::size_t at = text_.find(".py"); at != text_.npos; at = text_.find(".py", at + 1)) {
    const std::size_t end = at + 3;
    if (marks_[at] == kComment ||
        (end < text_.size() && (is_name(text_[end]) || text_[end] == '=')))
      continue;
    std::size_t begin = at;
    while (begin > 0 && !is_blank(text_[begin - 1])) --begin;
    if (text_.substr(begin, 2) != "--" && text_.substr(begin, at - begin).find('=') == text_.npos)
      places.push_back({begin, end});
  }
  return places;
}

std::size_t ScriptPlaces::first_command() const {
  std::size_t at = 0;
  while (at < text_.size()) {
    const TextPart line = line_of(at);
    const std::size_t word = text_.find_first_not_of(" \t\r", line.begin);
    const bool empty = word == text_.npos || word >= line.end;
    if (!empty && text_[word] != '#') return line.begin;
    at = line.end + 1;
  }
  return text_.size();
}

}  // namespace weir
