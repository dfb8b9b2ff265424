// One check for every cuDNN call: it throws RunFailed with the status, the library's own last words, the expression and
// the place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn_graph.h>

namespace weir {

void check_cudnn(cudnnStatus_t status, const char* expression, const char* file, int line);

}  // namespace weir

#define CUDNN_CHECK(expression) ::weir::check_cudnn((expression), #expression, __FILE__, __LINE__)
