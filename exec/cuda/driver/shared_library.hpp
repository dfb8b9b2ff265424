// Libraries that are looked up while the program runs: it must start on a machine without them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace weir {

// Names under which `file` may be found: on the search path, beside CUDA's runtime library, and in
// these folders, as seen from that one's.
[[nodiscard]] std::vector<std::string> library_names(const std::string& file,
                                                     std::initializer_list<const char*> folders);

// The first that can be loaded, for as long as the process; null where none can.
[[nodiscard]] void* open_library(const std::vector<std::string>& names);

// Writes the function to `found`; false, with the reason, where the library has none of this name.
template <class Function>
[[nodiscard]] bool look_up(void* library, const char* name, Function& found, std::string& why) {
  found = reinterpret_cast<Function>(dlsym(library, name));
  if (found == nullptr) why = std::string("this library has no ") + name;
  return found != nullptr;
}

}  // namespace weir
