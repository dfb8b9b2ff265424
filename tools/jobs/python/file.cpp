// What a Python file holds, before anything of it is followed.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tools/jobs/python/evaluate.hpp"

namespace weir {

bool is_python(std::string_view text) {
  return std::ranges::any_of(
      std::array<std::string_view, 3>{"def ", "from ", "import "}, [text](std::string_view word) {
        return text.starts_with(word) || text.find(fmt::format("\n{}", word)) != text.npos;
      });
}

PythonFile read_python(const std::string& source, const std::string& file) {
  return {file, parse_python(source, file)};
}

std::vector<std::string> python_functions(const PythonFile& file,
                                          const std::vector<std::string>& returns) {
  std::vector<std::string> names;
  for (const PythonStatement& s : file.statements) {
    if (s.kind != PythonStatement::Kind::define || s.word[0] == '_') continue;
    const bool needs = std::ranges::any_of(
        s.parameters, [](const PythonStatement::Parameter& p) { return !p.has_default; });
    const std::string_view said = s.value.source;
    const bool fits = said.empty() || std::ranges::any_of(returns, [&](const std::string& word) {
                        return said.ends_with(word);
                      });
    if (!needs && fits) names.push_back(s.word);
  }
  return names;
}

std::string python_import_of(const PythonFile& file, const std::string& name) {
  for (const PythonStatement& s : file.statements) {
    if (s.kind == PythonStatement::Kind::import &&
        std::ranges::find(s.words, name) != s.words.end())
      return s.word;
  }
  return "";
}

}  // namespace weir
