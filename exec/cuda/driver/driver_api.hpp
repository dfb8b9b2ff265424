// The driver's functions for which the runtime has no word, looked up while the program runs: a
// binary that linked libcuda could not even start where there is no driver. Types and names are
// those of cudaTypedefs.h, asked for as of CUDA 12.5, the first version with all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudaTypedefs.h>

#include <optional>
#include <string>

namespace weir {

// Green contexts: a share of a device's multiprocessors, and streams whose kernels run on that
// share only.
struct DriverApi {
  PFN_cuGetErrorString_v6000 get_error_string = nullptr;
  PFN_cuDeviceGet_v2000 device_get = nullptr;
  PFN_cuDeviceGetDevResource_v12040 device_get_resource = nullptr;
  PFN_cuDevSmResourceSplitByCount_v12040 split_by_count = nullptr;
  PFN_cuDevResourceGenerateDesc_v12040 generate_description = nullptr;
  PFN_cuGreenCtxCreate_v12040 green_context_create = nullptr;
  PFN_cuGreenCtxDestroy_v12040 green_context_destroy = nullptr;
  PFN_cuGreenCtxStreamCreate_v12050 green_context_stream_create = nullptr;
  PFN_cuCtxFromGreenCtx_v12040 context_of_green = nullptr;
  PFN_cuCtxPushCurrent_v4000 push_current = nullptr;
  PFN_cuCtxPopCurrent_v4000 pop_current = nullptr;
};

struct DriverLookup {
  std::optional<DriverApi> api;  // all of it, or nothing
  std::string why;               // one line: why nothing
};

// Never throws: no driver, or one that is too old, is an answer.
[[nodiscard]] DriverLookup find_driver_api();

// Throws RunFailed with the driver's words, the expression, file and line.
void check_driver(const DriverApi& api, CUresult status, const char* expression, const char* file,
                  int line);

}  // namespace weir

#define DRIVER_CHECK(api, expression) \
  ::weir::check_driver((api), (expression), #expression, __FILE__, __LINE__)
