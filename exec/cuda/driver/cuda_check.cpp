// CUDA's errors in words.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/driver/cuda_check.hpp"

#include <fmt/core.h>

#include "plan/words/error.hpp"

namespace weir {
namespace {

std::string_view base_name(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

void fail_call(std::string_view library, std::string_view reason, const char* expression,
               const char* file, int line) {
  throw RunFailed(
      fmt::format("{}: {} in {} ({}:{})", library, reason, expression, base_name(file), line));
}

void check_cuda(cudaError_t status, const char* expression, const char* file, int line) {
  if (status != cudaSuccess) fail_call("CUDA", cudaGetErrorString(status), expression, file, line);
}

bool check_cuda_done(cudaError_t status, const char* expression, const char* file, int line) {
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check_cuda(status, expression, file, line);
  return true;
}

void check_cublas(cublasStatus_t status, const char* expression, const char* file, int line) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail_call("cuBLASLt", cublasLtGetStatusString(status), expression, file, line);
}

}  // namespace weir
