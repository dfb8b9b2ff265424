// One check for every cuDNN call: it throws RunFailed with the status, the library's own last
// words, the expression and the place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn_graph.h>

#include <string>

namespace weir {

// What the library says of its last failure on this thread, in one line; reading it forgets it.
[[nodiscard]] std::string cudnn_last_words();
void check_cudnn(cudnnStatus_t status, const char* expression, const char* file, int line);

}  // namespace weir

#define CUDNN_CHECK(expression) ::weir::check_cudnn((expression), #expression, __FILE__, __LINE__)
