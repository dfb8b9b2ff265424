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

std::string python_name_there(const PythonFile& file, const std::string& name) {
  for (const PythonStatement& s : file.statements) {
    if (s.kind != PythonStatement::Kind::import) continue;
    const auto found = std::ranges::find(s.words, name);
    // An import's words are in its order, "as" among them.
    if (found - s.words.begin() >= 2 && found != s.words.end() && *(found - 1) == "as")
      return *(found - 2);
  }
  return name;
}

std::vector<std::string> python_places_of(const std::string& module, const std::string& folder) {
  constexpr int kFarthestUp = 8;
  std::vector<std::string> places;
  const std::size_t dots = std::min(module.find_first_not_of('.'), module.size());
  std::string path = module.substr(dots);
  std::ranges::replace(path, '.', '/');
  const auto add = [&](const std::string& from, const std::string& what) {
    places.push_back(from + what + ".py");
    places.push_back(from + what + "/__init__.py");
  };
  std::string up = folder;
  for (std::size_t i = 1; i < dots; ++i) up += "../";
  if (dots > 0) add(up, path);
  while (!path.empty()) {
    const bool packaged = path.find('/') != path.npos;
    std::string from = folder;
    for (int i = 0; i <= (packaged ? kFarthestUp : 0); ++i, from += "../") add(from, path);
    if (!folder.empty()) add("", path);
    const std::size_t slash = path.find('/');
    path = slash == path.npos ? "" : path.substr(slash + 1);
  }
  return places;
}

}  // namespace weir
