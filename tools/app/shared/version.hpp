// Which Weir this is: its version, the commit it was built of, and what the build holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace weir::app {

// The first twelve digits, or nothing where the sources came without a repository. The build
// writes it (cmake/WeirVersion.cmake).
[[nodiscard]] std::string_view built_commit();

// "weir 0.2.0 (commit 2fb6f9b7bd01, GCC 12.2.0; with cpu, mpi; without cuda, nccl)"
[[nodiscard]] std::string version_line();

}  // namespace weir::app
