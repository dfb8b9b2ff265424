// TOML by toml++, behind a reader that knows which keys were asked for.
// SPDX-License-Identifier: Apache-2.0
#include "plan/import/toml_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

// What toml++ 3.3 takes for granted of a text does not hold of every text ("[/job]"). With NDEBUG
// that is undefined behaviour, without it the end of the process; here it is an exception.
namespace weir {
struct TomlFault : std::logic_error {
  using std::logic_error::logic_error;
};
[[noreturn]] static void refuse_toml(const char* assumption) { throw TomlFault(assumption); }
}  // namespace weir
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) ((expr) ? void() : weir::refuse_toml(#expr))
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include "plan/words/error.hpp"

namespace weir {

struct TomlTable::Parsed {
  toml::table table;
};

namespace {

void collect(const toml::table& table, const std::string& prefix,
             std::vector<TomlTable::Leaf>& leaves) {
  for (const auto& [key, node] : table) {
    const std::string path =
        prefix.empty() ? std::string(key.str()) : fmt::format("{}.{}", prefix, key.str());
    if (const auto* inner = node.as_table()) {
      collect(*inner, path, leaves);
      continue;
    }
    std::ostringstream text;
    node.visit([&text](const auto& value) { text << value; });
    std::string line;  // a list's lines as one
    for (const char c : text.str()) {
      const bool blank = c == ' ' || c == '\n';
      if (!blank || (!line.empty() && line.back() != ' ')) line += blank ? ' ' : c;
    }
    leaves.push_back({path, line.substr(0, 60)});
  }
}

// The line of the first character beyond ASCII that is in no string and no comment, where TOML has
// none; 0: there is none. toml++ 3.3 asks of some whether they are blanks, and its table of blanks
// is undefined behaviour for them.
int beyond_ascii(const std::string& text) {
  const auto newlines = [&text](std::size_t from, std::size_t to) {
    return static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(from),
                                       text.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
  };
  // Behind the string that begins at `at`, or the end of its line where it is not closed.
  const auto behind = [&text](std::size_t at) {
    const char quote = text[at];
    const std::string triple(3, quote);
    const bool lines = text.compare(at, 3, triple) == 0;
    for (std::size_t i = at + (lines ? 3 : 1); i < text.size(); ++i) {
      if (text[i] == '\\' && quote == '"') {
        ++i;
      } else if (lines ? text.compare(i, 3, triple) == 0 : text[i] == quote || text[i] == '\n') {
        return i + (lines ? 3 : 1);
      }
    }
    return text.size();
  };
  int line = 1;
  for (std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; at < text.size();) {
    std::size_t next = at + 1;
    if (text[at] == '#') {
      next = std::min(text.find('\n', at), text.size());
    } else if (text[at] == '"' || text[at] == '\'') {
      next = std::min(behind(at), text.size());
    } else if (static_cast<unsigned char>(text[at]) >= 0x80) {
      return line;
    }
    line += newlines(at, next);
    at = next;
  }
  return 0;
}

}  // namespace

TomlTable::TomlTable(const std::string& text, std::string file) : file_(std::move(file)) {
  if (const int line = beyond_ascii(text))
    throw InputError(file_, fmt::format("line {}", line),
                     "expected ASCII outside of strings and comments");
  try {
    parsed_ = std::make_unique<Parsed>(Parsed{toml::parse(text)});
  } catch (const toml::parse_error& error) {
    throw InputError(file_, fmt::format("line {}", error.source().begin.line),
                     fmt::format("no valid TOML: {}", error.description()));
  } catch (const TomlFault& fault) {
    throw InputError(file_, "", fmt::format("no valid TOML: does not hold: {}", fault.what()));
  }
}

TomlTable::~TomlTable() = default;

bool TomlTable::has(std::string_view path) const {
  return static_cast<bool>(parsed_->table.at_path(path));
}

std::optional<std::int64_t> TomlTable::integer(std::string_view path, std::int64_t low,
                                               std::int64_t high) {
  known_.insert(std::string(path));
  const auto node = parsed_->table.at_path(path);
  if (!node) return std::nullopt;
  const auto* value = node.as_integer();
  if (value == nullptr || value->get() < low || value->get() > high) {
    fail(path, fmt::format("expected an integer from {} to {}", low, high));
  }
  return value->get();
}

std::int64_t TomlTable::integer_or(std::string_view path, std::int64_t otherwise, std::int64_t low,
                                   std::int64_t high) {
  return integer(path, low, high).value_or(otherwise);
}

double TomlTable::number_or(std::string_view path, double otherwise, double low, double high) {
  known_.insert(std::string(path));
  const auto node = parsed_->table.at_path(path);
  if (!node) return otherwise;
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  if (!value || !std::isfinite(*value) || *value < low || *value > high) {
    fail(path, fmt::format("expected a number from {} to {}", low, high));
  }
  return *value;
}

bool TomlTable::flag_or(std::string_view path, bool otherwise) {
  known_.insert(std::string(path));
  const auto node = parsed_->table.at_path(path);
  if (!node) return otherwise;
  if (!node.is_boolean()) fail(path, "expected true or false");
  return node.as_boolean()->get();
}

std::string TomlTable::text_or(std::string_view path, std::string otherwise) {
  known_.insert(std::string(path));
  const auto node = parsed_->table.at_path(path);
  if (!node) return otherwise;
  if (!node.is_string()) fail(path, "expected a text");
  return node.as_string()->get();
}

std::vector<std::vector<std::string>> TomlTable::lists(std::string_view path) {
  known_.insert(std::string(path));
  const auto node = parsed_->table.at_path(path);
  std::vector<std::vector<std::string>> all;
  if (!node) return all;
  const auto expected = "expected a list of lists of texts";
  if (!node.is_array()) fail(path, expected);
  for (const toml::node& element : *node.as_array()) {
    if (!element.is_array()) fail(path, expected);
    std::vector<std::string>& texts = all.emplace_back();
    for (const toml::node& text : *element.as_array()) {
      if (!text.is_string()) fail(path, expected);
      texts.push_back(text.as_string()->get());
    }
  }
  return all;
}

std::vector<std::string> TomlTable::list(std::string_view path) {
  known_.insert(std::string(path));
  const auto node = parsed_->table.at_path(path);
  std::vector<std::string> texts;
  if (!node) return texts;
  if (node.is_string()) {
    std::istringstream in(node.as_string()->get());
    for (std::string text; std::getline(in, text, ',');) texts.push_back(text);
    return texts;
  }
  if (!node.is_array()) fail(path, "expected a list of texts");
  for (const toml::node& text : *node.as_array()) {
    if (!text.is_string()) fail(path, "expected a list of texts");
    texts.push_back(text.as_string()->get());
  }
  return texts;
}

std::vector<TomlTable::Leaf> TomlTable::leaves() const {
  std::vector<Leaf> leaves;
  collect(parsed_->table, "", leaves);
  return leaves;
}

void TomlTable::fail(std::string_view path, const std::string& message) const {
  throw InputError(file_, std::string(path), message);
}

}  // namespace weir
