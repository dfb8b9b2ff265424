// toml++ knows on which lines a key and its value stand.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/toml/open_lines.hpp"

#include <algorithm>

#include "plan/job/source_job.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/job/secret_names.hpp"
#include "tools/jobs/toml/parse.hpp"

namespace weir {
namespace {

bool has_password(const toml::node& value) {
  if (const toml::array* array = value.as_array())
    return std::any_of(array->begin(), array->end(), has_password);
  return holds_a_password(value.value_or(std::string_view()));
}

// Marks the lines of secrets, from 0 on.
void find_secrets(const toml::node& node, std::vector<bool>& hidden,
                  std::vector<std::string>& names) {
  if (const toml::array* array = node.as_array()) {
    for (const toml::node& element : *array) find_secrets(element, hidden, names);
  }
  const toml::table* table = node.as_table();
  if (table == nullptr) return;
  for (const auto& [key, value] : *table) {
    if (value.is_table() || !(names_a_secret(key.str()) || has_password(value))) {
      find_secrets(value, hidden, names);
      continue;
    }
    names.emplace_back(key.str());
    for (std::size_t line = key.source().begin.line;
         line <= value.source().end.line && line <= hidden.size(); ++line)
      hidden[line - 1] = true;
  }
}

}  // namespace

OpenLines open_lines(const std::string& text, const std::string& file) {
  const std::vector<std::string> all = job_lines(text);
  std::vector<bool> hidden(all.size(), false);
  OpenLines open;
  find_secrets(parse_toml(text, file), hidden, open.left_out);
  for (std::size_t line = 0; line < all.size(); ++line) {
    if (!hidden[line]) open.lines.push_back(all[line]);
  }
  if (open.left_out.empty()) return open;
  // A list may have lost the line on which it began: such a text is kept not at all.
  try {
    static_cast<void>(parse_toml(job_text(open.lines), file));
  } catch (const InputError&) {
    open.lines.clear();
  }
  return open;
}

}  // namespace weir
