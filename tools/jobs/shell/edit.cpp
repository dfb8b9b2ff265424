// A value is changed at the literal that it comes from; a flag goes with its line where nothing
// else is on it; a new argument stands behind one that is there.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/edit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/text/quote.hpp"
#include "tools/jobs/shell/places.hpp"
#include "tools/jobs/shell/tokens.hpp"

namespace weir {
namespace {

constexpr int kDeepestVariable = 4;  // variables of variables

std::string replaced(const std::string& text, const TextPart& part, std::string_view by) {
  return fmt::format("{}{}{}", text.substr(0, part.begin), by, text.substr(part.end));
}

std::size_t words_in(const std::string& value) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < value.size(); ++i)
    count += value[i] != ' ' && (i == 0 || value[i - 1] == ' ');
  return count;
}

// The name in "$NAME", "${NAME}" and "${NAME:-other}", and where its other text stands.
struct Reference {
  std::string name;
  std::optional<TextPart> otherwise;
};
std::optional<Reference> reference(const std::string& text, TextPart part) {
  std::string_view raw = part.of(text);
  if (raw.size() > 1 && raw.front() == '"' && raw.back() == '"') {
    raw = raw.substr(1, raw.size() - 2);
    ++part.begin;
  }
  if (!raw.starts_with('$')) return std::nullopt;
  const bool brackets = raw.starts_with("${");
  const std::size_t first = brackets ? 2 : 1;
  const std::size_t length = shell_name_length(raw.substr(first));
  if (length == 0) return std::nullopt;
  Reference found{std::string(raw.substr(first, length)), std::nullopt};
  const std::string_view rest = raw.substr(first + length);
  if (!brackets) return rest.empty() ? std::optional(found) : std::nullopt;
  if (rest == "}") return found;
  const std::size_t mark = rest.starts_with(":-") || rest.starts_with(":=") ? 2
                           : rest.starts_with("-")                          ? 1
                                                                            : 0;
  if (mark == 0 || !rest.ends_with('}')) return std::nullopt;
  const std::size_t begin = part.begin + first + length + mark;
  found.otherwise = TextPart{begin, begin + rest.size() - mark - 1};
  return found;
}

// As a value stands at a place: bare within double quotes, in the quotes that are there, or quoted
// where it must be.
std::string value_at(const std::string& text, const TextPart& part, bool within,
                     const std::string& value) {
  const std::string_view raw = part.of(text);
  if (within) return value;
  if (raw.size() > 1 && (raw.front() == '"' || raw.front() == '\'') && raw.front() == raw.back())
    return fmt::format("{0}{1}{0}", raw.front(), value);
  return shell_quoted(value);
}

class Edits {
 public:
  Edits(const std::string& text, const EditedArgument& argument)
      : text_(text), places_(text), argument_(argument) {}

  std::vector<ScriptEdit> all() {
    if (!argument_.after) {
      remove();
    } else if (!argument_.before) {
      add();
    } else {
      change();
    }
    return std::move(edits_);
  }

 private:
  std::vector<ArgumentPlace> found() const {
    return places_.arguments(argument_.name, words_in(*argument_.before));
  }

  // ---- another value ----------------------------------------------------------------------------

  void change() {
    const std::vector<ArgumentPlace> found_places = found();
    for (const ArgumentPlace& place : found_places) change_source(place.value, kDeepestVariable);
    for (const ArgumentPlace& place : found_places) {
      if (place.value.empty()) continue;
      const bool bare = argument_.words || places_.in_double_quotes(place.name.begin);
      edits_.push_back(
          {replaced(text_, place.value, value_at(text_, place.value, bare, *argument_.after))});
    }
  }
  // At the literal that a variable's value comes from, then at its assignment.
  void change_source(const TextPart& value, int depth) {
    const auto variable = value.empty() ? std::nullopt : reference(text_, value);
    if (!variable || depth == 0) return;
    if (variable->otherwise)
      edits_.push_back({replaced(text_, *variable->otherwise, *argument_.after), true});
    const std::vector<TextPart> assigned = places_.assignments(variable->name);
    for (const TextPart& part : assigned) {
      change_source(part, depth - 1);
      const bool literal = part.of(text_).find_first_of("$`") == std::string_view::npos;
      if (literal) put(part);
    }
    for (const TextPart& part : assigned) put(part);
  }
  void put(const TextPart& part) {
    edits_.push_back({replaced(text_, part, value_at(text_, part, false, *argument_.after)), true});
  }

  // ---- gone -------------------------------------------------------------------------------------

  void remove() {
    std::string all = text_;
    const std::vector<ArgumentPlace> found_places = found();
    for (auto place = found_places.rbegin(); place != found_places.rend(); ++place) {
      const TextPart part{place->name.begin, std::max(place->name.end, place->value.end)};
      edits_.push_back({without(text_, part)});
      all = without(all, part);
    }
    if (found_places.size() > 1) edits_.push_back({all});
  }
  // The whole line where nothing else is on it; a line that the one before went on to takes that
  // one's backslash with it.
  static std::string without(const std::string& text, TextPart part) {
    const ScriptPlaces places(text);
    const char before = part.begin > 0 ? text[part.begin - 1] : ' ';
    const bool wrapped = (before == '"' || before == '\'') && text.substr(part.end, 1)[0] == before;
    if (wrapped) part = {part.begin - 1, part.end + 1};  // an empty word would be an argument
    const TextPart line = places.line_of(part.begin);
    const std::string_view head =
        std::string_view(text).substr(line.begin, part.begin - line.begin);
    const std::size_t line_end = places.line_of(part.end).end;
    const std::string_view tail = std::string_view(text).substr(part.end, line_end - part.end);
    const bool alone = head.find_first_not_of(" \t") == head.npos &&
                       tail.find_first_not_of(" \t\r\\") == tail.npos;
    if (!alone) {
      const auto blank = [&](std::size_t at) { return text[at] == ' ' || text[at] == '\t'; };
      const bool leads = head.find_first_not_of(" \t") == head.npos;  // its indentation stays
      while (leads && part.end < line_end && blank(part.end)) ++part.end;
      while (!leads && part.begin > line.begin && blank(part.begin - 1)) --part.begin;
      return replaced(text, part, "");
    }
    const bool goes_on = tail.find('\\') != tail.npos;
    std::size_t begin = line.begin;
    if (!goes_on && begin >= 2 && text[begin - 2] == '\\') {
      begin -= 2;
      while (begin > 0 && (text[begin - 1] == ' ' || text[begin - 1] == '\t')) --begin;
      return replaced(text, {begin, line_end}, "");
    }
    return replaced(text, {begin, std::min(line_end + 1, text.size())}, "");
  }

  // ---- new --------------------------------------------------------------------------------------

  void add() {
    for (const auto& [name, value] : argument_.beside) {
      for (const ArgumentPlace& place : places_.arguments(name, words_in(value)))
        add_behind({place.name.begin, std::max(place.name.end, place.value.end)});
    }
    for (const TextPart& program : places_.programs()) add_behind(program);
  }
  std::string written(bool within) const {
    const std::string& value = *argument_.after;
    if (value.empty()) return "--" + argument_.name;
    const bool bare = within || argument_.words;
    return fmt::format("--{} {}", argument_.name, bare ? value : shell_quoted(value));
  }
  // On a line of its own where the one beside it has one and the command or the array goes on, else
  // on the same.
  void add_behind(const TextPart& part) {
    const TextPart line = places_.line_of(part.begin);
    const std::string_view whole = line.of(text_);
    const std::string_view head = whole.substr(0, part.begin - line.begin);
    const std::string_view tail = std::string_view(text_).substr(part.end, line.end - part.end);
    const bool within = places_.in_double_quotes(part.begin);
    const bool alone = part.end <= line.end && head.find_first_not_of(" \t") == head.npos &&
                       tail.find_first_not_of(" \t\r\\") == tail.npos;
    const bool goes_on = tail.find('\\') != tail.npos;
    const bool listed = line.begin < 2 || text_[line.begin - 2] != '\\';
    if (alone && (goes_on || listed)) {
      edits_.push_back(
          {replaced(text_, {line.end, line.end},
                    fmt::format("\n{}{}{}", head, written(within), goes_on ? " \\" : ""))});
    }
    edits_.push_back({replaced(text_, {part.end, part.end}, " " + written(within))});
  }

  const std::string& text_;
  ScriptPlaces places_;
  const EditedArgument& argument_;
  std::vector<ScriptEdit> edits_;
};

}  // namespace

std::vector<ScriptEdit> edits_of(const std::string& text, const EditedArgument& argument) {
  return Edits(text, argument).all();
}

namespace {

// Lines "unset NAME", each without its indentation and what follows.
std::vector<TextPart> unset_lines(const std::string& text, const std::string& gone) {
  std::vector<TextPart> found;
  for (std::size_t at = text.find(gone); at != text.npos; at = text.find(gone, at + 1)) {
    const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    const bool first = text.find_first_not_of(" \t", begin) == at;
    const std::size_t next =
        std::min(text.find_first_not_of(" \t\r", at + gone.size()), text.size());
    if (first && (next == text.size() || text[next] == '\n' || text[next] == '#'))
      found.push_back({at, at + gone.size()});
  }
  return found;
}

}  // namespace

std::string with_variable(const std::string& text, std::string_view name,
                          const std::string& value) {
  const ScriptPlaces places(text);
  const std::vector<TextPart> assigned = places.assignments(name);
  const std::string exported = fmt::format("export {}={}", name, value);
  if (const auto unset = unset_lines(text, fmt::format("unset {}", name)); !unset.empty()) {
    std::string set = text;
    for (auto part = unset.rbegin(); part != unset.rend(); ++part)
      set = replaced(set, *part, exported);
    return with_variable(set, name, value);
  }
  if (assigned.empty()) {
    const std::size_t at = places.first_command();
    return replaced(text, {at, at}, exported + "\n");
  }
  std::string changed = text;
  for (auto part = assigned.rbegin(); part != assigned.rend(); ++part) {
    const auto from = reference(changed, *part);
    const TextPart place = from && from->otherwise ? *from->otherwise : *part;
    if (place.of(changed) != value) changed = replaced(changed, place, value);
  }
  return changed;
}

std::string without_variable(const std::string& text, std::string_view name) {
  const ScriptPlaces places(text);
  const std::vector<TextPart> assigned = places.assignments(name);
  const std::string gone = fmt::format("unset {}", name);
  if (text.find(gone) != text.npos && assigned.empty()) return text;
  if (assigned.empty()) {
    const std::size_t at = places.first_command();
    return replaced(text, {at, at}, gone + "\n");
  }
  std::string changed = text;
  for (auto part = assigned.rbegin(); part != assigned.rend(); ++part) {
    const TextPart line = places.line_of(part->begin);
    std::size_t begin = part->begin - name.size() - 1;
    const std::string head = changed.substr(line.begin, begin - line.begin);
    const std::size_t word = std::min(head.find_first_not_of(" \t"), head.size());
    const std::string_view tail = std::string_view(changed).substr(part->end, line.end - part->end);
    const bool only = (head.substr(word).empty() || head.substr(word) == "export ") &&
                      (tail.find_first_not_of(" \t\r") == tail.npos ||
                       tail[tail.find_first_not_of(" \t\r")] == '#');
    // Before a command it is that command's alone.
    changed = only ? replaced(changed, {line.begin + word, part->end}, gone)
                   : replaced(changed, {begin, part->end}, fmt::format("{}=", name));
  }
  return changed;
}

}  // namespace weir
