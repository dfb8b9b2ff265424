// Libraries that are looked up while the program runs: it must start on a machine without them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

namespace weir {

// Names under which `file` may be found: on the search path, beside CUDA's runtime library, and in
// these folders, as seen from that one's.
[[nodiscard]] std::vector<std::string> library_names(const std::string& file,
                                                     std::initializer_list<const char*> folders);

// The first that can be loaded, for as long as the process; null where none can.
[[nodiscard]] void* open_library(const std::vector<std::string>& names);

// A function of a library, and where its address goes.
template <class Function>
struct Entry {
  const char* name;
  Function& found;
};
template <class Function>
Entry(const char*, Function&) -> Entry<Function>;

// Fills all from the first library that can be loaded; why not, in one line, where there is none or
// it lacks one of them.
template <class... Functions>
[[nodiscard]] std::string find_entries(const std::vector<std::string>& libraries,
                                       Entry<Functions>... entries) {
  void* library = open_library(libraries);
  if (library == nullptr) return "no " + libraries.front() + " on this machine";
  std::string why;
  const auto found = [&](auto entry) {
    using Function = std::remove_reference_t<decltype(entry.found)>;
    entry.found = reinterpret_cast<Function>(dlsym(library, entry.name));
    if (entry.found == nullptr) why = std::string("this library has no ") + entry.name;
    return entry.found != nullptr;
  };
  static_cast<void>((found(entries) && ...));
  return why;
}

// A table of functions, or why it is not to be used; empty: it is.
template <class Api>
struct Loaded {
  Api api;
  std::string why;
};

}  // namespace weir
