// cuDNN, looked up while the program runs. The functions of its headers that this program calls are
// our own (cudnn_library.cpp) and pass on to those of the library that was found; so they may be
// called only where one was.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace weir {

// Names under which the library may be found.
[[nodiscard]] std::vector<std::string> cudnn_libraries();

// Why none of these libraries will do, in one line; empty: one does. It has to have every function
// that is called, and be of the header's major version.
[[nodiscard]] std::string why_no_cudnn(const std::vector<std::string>& libraries);

// Of cudnn_libraries(), which are looked for once.
[[nodiscard]] std::string cudnn_missing();

}  // namespace weir
