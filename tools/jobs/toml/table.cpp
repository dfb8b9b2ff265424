// TOML by toml++, behind a reader that knows which keys were asked for.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/toml/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "plan/words/error.hpp"
#include "tools/jobs/toml/parse.hpp"

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

}  // namespace

TomlTable::TomlTable(const std::string& text, std::string file)
    : parsed_(std::make_unique<Parsed>(Parsed{parse_toml(text, file)})), file_(std::move(file)) {}

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
