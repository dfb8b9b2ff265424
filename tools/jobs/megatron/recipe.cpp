// A line of the mapping is an argument; what stands around it is left out.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/recipe.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "plan/text/cells.hpp"
#include "tools/jobs/job/truth.hpp"

namespace weir {
namespace {

std::string_view without(std::string_view text, char open, char close) {
  const bool there = text.size() >= 2 && text.front() == open && text.back() == close;
  return there ? trimmed(text.substr(1, text.size() - 2)) : text;
}

std::string_view without_quotes(std::string_view text) {
  return without(without(text, '"', '"'), '\'', '\'');
}

// The value as words of a command line: without YAML's quotes, comment and the list's brackets, and
// in the shell's quotes where it would take a character for its own.
std::string as_words(std::string_view value) {
  const auto comment = value.find(" #");
  const std::string_view words =
      without(without_quotes(trimmed(value.substr(0, comment))), '[', ']');
  const bool is_for_the_shell = words.find_first_of("()*;&|<>#") != words.npos;
  if (!is_for_the_shell || words.find('\'') != words.npos) return std::string(words);
  return "'" + std::string(words) + "'";
}

// "--key: value" of the mapping as it stands on a command line, or an item of the list that is the
// value of the key before it.
std::string argument_of(std::string_view line) {
  line = trimmed(line);
  if (line.starts_with("- ")) return as_words(line.substr(2));
  if (line.starts_with("#")) return "";
  const auto end = line.find(": ");
  const bool open = end == line.npos && line.ends_with(':');  // a list follows, or nothing
  const std::string_view key =
      without_quotes(line.substr(0, open ? line.size() - 1 : std::min(end, line.size())));
  const std::string value = end == line.npos ? "" : as_words(line.substr(end + 2));
  if (says_false(value)) return "";
  return std::string(key) + (value.empty() || says_true(value) ? "" : " " + value);
}

}  // namespace

std::optional<std::string> megatron_recipe_arguments(const std::string& text) {
  std::string arguments;
  bool found = false, inside = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line); arguments += "\n") {
    if (line.starts_with("MODEL_ARGS:")) {
      found = inside = true;
    } else if (inside) {
      // Until the next key of the outermost mapping.
      inside = trimmed(line).empty() || line.front() == ' ' || line.front() == '#';
      if (inside) arguments += argument_of(line) + " \\";
    }
  }
  return found ? std::optional(arguments) : std::nullopt;
}

}  // namespace weir
