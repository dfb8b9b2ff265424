// cuDNN's statuses in words.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cudnn/cudnn_check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "plan/words/error.hpp"

namespace weir {

std::string cudnn_last_words() {
  std::array<char, 512> words{};
  cudnnGetLastErrorString(words.data(), words.size());
  std::string line = words.data();
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

void check_cudnn(cudnnStatus_t status, const char* expression, const char* file, int line) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string words = cudnn_last_words();
  const std::string_view path = file;
  throw RunFailed(fmt::format("cuDNN: {}{}{} in {} ({}:{})", cudnnGetErrorString(status),
                              words.empty() ? "" : ", ", words, expression,
                              path.substr(path.rfind('/') + 1), line));
}

}  // namespace weir
