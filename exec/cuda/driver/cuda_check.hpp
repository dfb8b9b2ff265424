// Every CUDA and cuBLASLt call is checked: the macro throws RunFailed with expression, file and
// line. In a destructor nothing may be thrown: CUDA_CHECK_NOEXCEPT asserts in debug builds and is
// otherwise silent. After a kernel has failed every call returns its error, and an assertion would
// hide the exception that says so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cassert>
#include <string_view>

namespace weir {

// Throws RunFailed: "LIBRARY: REASON in EXPRESSION (FILE:LINE)".
[[noreturn]] void fail_call(std::string_view library, std::string_view reason,
                            const char* expression, const char* file, int line);

void check_cuda(cudaError_t status, const char* expression, const char* file, int line);
// Of a query: whether it is done. "Not ready" is an answer; but the runtime keeps it as the
// thread's last error, where the check after the next launch would find it, so it is cleared.
[[nodiscard]] bool check_cuda_done(cudaError_t status, const char* expression, const char* file,
                                   int line);
void check_cublas(cublasStatus_t status, const char* expression, const char* file, int line);

// Whether the error stays until the process ends: what a kernel or the hardware did, and what other
// calls return then.
[[nodiscard]] constexpr bool stays(cudaError_t status) {
  switch (status) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
      return true;
    default:
      return false;
  }
}

inline void check_cuda_noexcept(cudaError_t status) noexcept {
  // A process that is exiting may have unloaded the driver before the last handle is released.
  assert(status == cudaSuccess || status == cudaErrorCudartUnloading || stays(status));
  static_cast<void>(status);
}

}  // namespace weir

#define CUDA_CHECK(expression) ::weir::check_cuda((expression), #expression, __FILE__, __LINE__)
#define CUDA_DONE(expression) ::weir::check_cuda_done((expression), #expression, __FILE__, __LINE__)
#define CUBLAS_CHECK(expression) ::weir::check_cublas((expression), #expression, __FILE__, __LINE__)
#define CUDA_CHECK_NOEXCEPT(expression) ::weir::check_cuda_noexcept(expression)
