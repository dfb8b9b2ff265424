// Assignments within sums.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/counting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "tools/jobs/shell/tokens.hpp"

namespace weir {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string_view stripped(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Behind the next ',' that stands in no bracket.
std::size_t comma_in(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] == ',' && depth == 0) return i;
  }
  return text.size();
}

std::optional<std::int64_t> one(std::string_view text, ShellVariables& variables) {
  const auto set = [&](std::string_view name, const std::string& sum) {
    const auto value = variables.sum(sum);
    variables.set_text(name, {value ? fmt::to_string(*value) : sum, value.has_value()}, false);
    return value;
  };
  const bool before = text.starts_with("++") || text.starts_with("--");
  const std::string_view named = before ? stripped(text.substr(2)) : text;
  const std::size_t length = shell_name_length(named);
  const std::string_view name = named.substr(0, length), rest = stripped(named.substr(length));
  const bool counts = before ? rest.empty() : rest == "++" || rest == "--";
  if (length > 0 && counts) {
    const char sign = before ? text[0] : rest[0];
    const auto old = variables.sum(name);
    const auto next = set(name, fmt::format("{} {} 1", name, sign));
    return before ? next : old;
  }
  const std::size_t equals = rest.find('=');
  const bool operation = equals == 1 && std::string_view("+-*/%").find(rest[0]) != rest.npos;
  const bool assigns = length > 0 && !before && (equals == 0 || operation) &&
                       !rest.substr(equals + 1).starts_with('=');
  if (!assigns) return variables.sum(text);
  const std::string_view sum = rest.substr(equals + 1);
  return set(name, operation ? fmt::format("{} {} ({})", name, rest[0], sum) : std::string(sum));
}

}  // namespace

std::optional<std::int64_t> shell_count(std::string_view text, ShellVariables& variables) {
  std::optional<std::int64_t> value;
  while (!text.empty()) {
    const std::size_t comma = comma_in(text);
    value = one(stripped(text.substr(0, comma)), variables);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return value;
}

}  // namespace weir
