// What a Python file holds, before anything of it is followed.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
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

namespace {

void add_imports(const std::vector<PythonStatement>& body, bool of_function,
                 std::map<std::string, PythonImport>& all) {
  for (const PythonStatement& s : body) {
    if (s.kind == PythonStatement::Kind::import) {
      // The words are in their order, "as" among them.
      for (std::size_t w = 0; w < s.words.size(); ++w) {
        const bool renamed = w + 2 < s.words.size() && s.words[w + 1] == "as";
        const auto [known, fresh] = all.try_emplace(s.words[renamed ? w + 2 : w]);
        if (!of_function) {
          known->second.module_name = s.word;
          known->second.there = s.words[w];
        }
        known->second.only = fresh;
        if (renamed) w += 2;
      }
    }
    const bool inside = of_function || s.kind == PythonStatement::Kind::define;
    add_imports(s.body, inside, all);
    add_imports(s.otherwise, inside, all);
  }
}

}  // namespace

std::map<std::string, PythonImport> python_imports(const PythonFile& file) {
  std::map<std::string, PythonImport> all;
  add_imports(file.statements, false, all);
  return all;
}

std::string python_import_of(const PythonFile& file, const std::string& name) {
  return python_imports(file)[name].module_name;
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
