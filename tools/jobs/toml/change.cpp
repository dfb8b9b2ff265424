// The changed file twice: as a table, and as edits of its text. Where the edited text does not read
// as the table (a key in a place that the edits do not know), the table is written anew.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/toml/change.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/words/error.hpp"
#include "tools/jobs/toml/parse.hpp"

namespace weir {
namespace {

std::string written(const toml::node& node) {
  std::ostringstream text;
  node.visit([&text](const auto& value) { text << value; });
  return text.str();
}

class Edits {
 public:
  explicit Edits(const std::string& text) : text_(text) {
    for (std::size_t at = 0; at <= text.size(); at = text.find('\n', at) + 1) {
      lines_.push_back(at);
      if (text.find('\n', at) == text.npos) break;
    }
  }

  // The text from the position of a node's first character to that behind its last.
  [[nodiscard]] static std::string_view source(const std::string& of, const toml::node& node) {
    const Edits lines(of);
    const std::size_t begin = lines.place(node.source().begin);
    return std::string_view(of).substr(begin, lines.place(node.source().end) - begin);
  }
  void replace(const toml::node& node, std::string_view by) {
    const std::size_t begin = place(node.source().begin);
    edits_.push_back({begin, place(node.source().end) - begin, std::string(by)});
  }
  // With the lines that the value stands in.
  void erase(const toml::node& node) {
    const std::size_t begin = lines_[line(node.source().begin.line)];
    const std::size_t end = text_.find('\n', place(node.source().end));
    edits_.push_back({begin, std::min(end, text_.size() - 1) + 1 - begin, ""});
  }
  // Behind the line of the table's name; at the end where there is none.
  void add(const toml::table* table, std::string_view lines) {
    const std::size_t header =
        table == nullptr ? text_.npos : text_.find('\n', place(table->source().begin));
    const std::size_t at = std::min(header, text_.size() - 1) + 1;
    edits_.push_back({at, 0, std::string(lines)});
  }
  [[nodiscard]] std::string text() {
    std::ranges::stable_sort(edits_, std::ranges::greater(), &Edit::at);
    std::string changed = text_;
    for (const Edit& edit : edits_) {
      if (edit.at + edit.count <= changed.size()) changed.replace(edit.at, edit.count, edit.by);
    }
    return changed;
  }

 private:
  struct Edit {
    std::size_t at, count;
    std::string by;
  };
  [[nodiscard]] std::size_t line(std::size_t number) const {
    return std::min(std::max<std::size_t>(number, 1), lines_.size()) - 1;
  }
  [[nodiscard]] std::size_t place(toml::source_position at) const {
    return std::min(lines_[line(at.line)] + std::max<std::size_t>(at.column, 1) - 1, text_.size());
  }

  const std::string& text_;
  std::vector<std::size_t> lines_;  // where each begins
  std::vector<Edit> edits_;
};

// Of one table, whose own tables are changed the same way.
void change(toml::table& in, const toml::table& before, const toml::table& after,
            const std::string& after_text, const std::string& name, Edits& edits) {
  std::string added;
  for (const auto& [key, value] : after) {
    const toml::node* earlier = before.get(key.str());
    if (earlier != nullptr && written(*earlier) == written(value)) continue;
    toml::node* own = in.get(key.str());
    const std::string path =
        name.empty() ? std::string(key.str()) : fmt::format("{}.{}", name, key.str());
    if (own != nullptr && own->is_table() && value.is_table()) {
      const bool known = earlier != nullptr && earlier->is_table();
      change(*own->as_table(), known ? *earlier->as_table() : toml::table(), *value.as_table(),
             after_text, path, edits);
      continue;
    }
    if (const toml::table* table = value.as_table()) {
      std::string lines = fmt::format("\n[{}]\n", path);
      for (const auto& [inner, node] : *table)
        lines += fmt::format("{} = {}\n", inner.str(), Edits::source(after_text, node));
      edits.add(nullptr, lines);
    } else if (own != nullptr) {
      edits.replace(*own, Edits::source(after_text, value));
    } else {
      added += fmt::format("{} = {}\n", key.str(), Edits::source(after_text, value));
    }
    in.insert_or_assign(key.str(), value);
  }
  if (!added.empty()) edits.add(&in, added);
  for (const auto& [key, value] : before) {
    if (after.get(key.str()) != nullptr || in.get(key.str()) == nullptr) continue;
    edits.erase(*in.get(key.str()));
    in.erase(key.str());
  }
}

}  // namespace

ChangedToml changed_toml(const std::string& text, const std::string& before,
                         const std::string& after, const std::string& file) {
  toml::table table = parse_toml(text, file);
  Edits edits(text);
  change(table, parse_toml(before, file), parse_toml(after, file), after, "", edits);
  std::string edited = edits.text();
  try {
    if (written(parse_toml(edited, file)) == written(table)) return {std::move(edited)};
  } catch (const InputError&) {
    // Written anew below.
  }
  return {written(table) + "\n", false};
}

}  // namespace weir
