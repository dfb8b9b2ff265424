// A function of a Python file of settings, followed without running it: literals, arithmetic,
// assignments to attributes, branches whose condition is known, and calls of the file's own
// functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/jobs/python/syntax.hpp"
#include "tools/jobs/python/value.hpp"

namespace weir {

// Whether a job's file is Python: TOML, YAML and JSON have no line
// that begins as an import or a function does.
[[nodiscard]] bool is_python(std::string_view text);

struct PythonFile {
  std::string name;
  std::vector<PythonStatement> statements;
};
[[nodiscard]] PythonFile read_python(const std::string& source, const std::string& file);

// Functions that can be called without arguments, do not begin with '_', and say that they return
// what ends with one of these words, or do not say what; in the file's order.
[[nodiscard]] std::vector<std::string> python_functions(const PythonFile& file,
                                                        const std::vector<std::string>& returns);

// Where a name comes from, "torchtitan.models.llama3", and what it is called there: "a" of
// `from x import a as b` and the name b.
struct PythonImport {
  std::string module_name, there;  // empty where only a function imports it, for itself
  bool only = true;                // of the imports that bind the name, functions' own among them
};
// By the name that is bound. The file's last import of it counts, as in Python.
[[nodiscard]] std::map<std::string, PythonImport> python_imports(const PythonFile& file);

// Where a name was imported from; empty where it was not.
[[nodiscard]] std::string python_import_of(const PythonFile& file, const std::string& name);

// Where the file of a module may be, seen from a file in `folder`, the likeliest first. Dots before
// its name lead up from that folder. "a.b.c" is a/b/c.py (or a package's a/b/c/__init__.py) in the
// folder or one above it, or b/c.py: how far up its packages begin is not known here; c.py, which
// may be many a file, in the folder alone.
[[nodiscard]] std::vector<std::string> python_places_of(const std::string& module,
                                                        const std::string& folder);

struct PythonResult {
  PythonValue value;
  // Lines whose effect is not known: an `if` that hangs on something else, a call of another
  // file's function with an object that it may change.
  std::vector<std::string> not_followed;
  PythonHeap heap = {};  // of the value's objects
};
// Other files by their path: functions that this one imports from them are followed too.
using PythonFiles = std::function<std::optional<std::string>(const std::string& path)>;

// What the function returns when called without arguments. Throws InputError where the file has no
// such function, or calls itself without end.
[[nodiscard]] PythonResult call_python(const PythonFile& file, const std::string& function,
                                       const PythonFiles& files = {});

}  // namespace weir
