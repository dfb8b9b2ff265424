// NCCL, looked up while the program runs. The functions of nccl.h that this program calls are our
// own (nccl_library.cpp) and pass on to those of the library that was found; so they may be called
// only where one was.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace weir {

// Names under which the library may be found.
[[nodiscard]] std::vector<std::string> nccl_libraries();

// Why none of these libraries will do, in one line; empty: one does. It has to have every function
// that is called, and the version of the header's number before the dot, from 2.17 on.
[[nodiscard]] std::string why_no_nccl(const std::vector<std::string>& libraries);

// Of nccl_libraries(), which are looked for once.
[[nodiscard]] std::string nccl_missing();

// Throws MissingComponent with that line.
void require_nccl();

}  // namespace weir
