// Where NVIDIA's libraries lie: with the system's, in the toolkit, or in a Python environment, in
// which each has a folder beside the runtime's.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/driver/shared_library.hpp"

#include <cuda_runtime_api.h>

#include <filesystem>

namespace weir {

std::vector<std::string> library_names(const std::string& file,
                                       std::initializer_list<const char*> folders) {
  std::vector<std::string> names{file};
  Dl_info runtime{};
  if (dladdr(reinterpret_cast<const void*>(&cudaRuntimeGetVersion), &runtime) == 0 ||
      runtime.dli_fname == nullptr) {
    return names;
  }
  // Where the runtime was loaded from tells which toolkit or environment is in use.
  const std::filesystem::path beside = std::filesystem::path(runtime.dli_fname).parent_path();
  names.push_back(beside / file);
  for (const char* folder : folders) names.push_back(beside / folder / file);
  return names;
}

void* open_library(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    // In order: the system's own comes before those beside the runtime.
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

}  // namespace weir
