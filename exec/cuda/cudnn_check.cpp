// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cudnn_check.hpp"

#include <fmt/core.h>

#include <array>
#include <string_view>

#include "plan/error.hpp"

namespace weir {

void check_cudnn(cudnnStatus_t status, const char* expression, const char* file, int line) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> words{};
  cudnnGetLastErrorString(words.data(), words.size());
  const std::string_view path = file;
  throw RunFailed(fmt::format("cuDNN: {}{}{} in {} ({}:{})", cudnnGetErrorString(status), words[0] == 0 ? "" : ", ",
                              words.data(), expression, path.substr(path.rfind('/') + 1), line));
}

}  // namespace weir
