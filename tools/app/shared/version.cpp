// The line of `weir --version`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/version.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace weir::app {
namespace {

#ifdef __clang__
constexpr const char* kCompiler = "Clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

struct Component {
  const char* name;
  bool built;
};

std::vector<Component> components() {
  std::vector<Component> all{{"cpu", false}, {"mpi", false}, {"cuda", false}, {"nccl", false}};
#ifdef WEIR_HAS_CPU_BACKEND
  all[0].built = true;
#endif
#ifdef WEIR_HAS_MPI
  all[1].built = true;
#endif
#ifdef WEIR_HAS_CUDA_BACKEND
  all[2].built = true;
#endif
#ifdef WEIR_HAS_NCCL
  all[3].built = true;
#endif
  return all;
}

std::string named(const char* word, bool built) {
  std::vector<const char*> names;
  for (const Component& component : components())
    if (component.built == built) names.push_back(component.name);
  return names.empty() ? "" : fmt::format("; {} {}", word, fmt::join(names, ", "));
}

}  // namespace

std::string version_line() {
  const std::string commit =
      built_commit().empty() ? "" : fmt::format("commit {}, ", built_commit());
  return fmt::format("weir {} ({}{}{}{})", WEIR_VERSION, commit, kCompiler, named("with", true),
                     named("without", false));
}

}  // namespace weir::app
