// Functions of the driver looked up by name and version.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/driver/driver_api.hpp"

#include <fmt/format.h>

#include "exec/cuda/driver/cuda_check.hpp"

namespace weir {
namespace {

constexpr unsigned kVersion = 12050;  // cuGreenCtxStreamCreate; the others are older

// Writes the function to `found`; false, with the reason, where the driver has none of this name.
template <class Function>
bool look_up(const char* name, Function& found, std::string& why) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult answer = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &function, kVersion, cudaEnableDefault, &answer);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // an answer, not a failure of what comes next
    why = fmt::format("{} cannot be looked up: {}", name, cudaGetErrorString(status));
    return false;
  }
  if (answer != cudaDriverEntryPointSuccess || function == nullptr) {
    why = fmt::format("the driver has no {} of CUDA 12.5", name);
    return false;
  }
  found = reinterpret_cast<Function>(function);
  return true;
}

}  // namespace

DriverLookup find_driver_api() {
  DriverApi api;
  std::string why;
  // The first that is missing ends the search, and `why` names it.
  const bool complete = look_up("cuGetErrorString", api.get_error_string, why) &&
                        look_up("cuDeviceGet", api.device_get, why) &&
                        look_up("cuDeviceGetDevResource", api.device_get_resource, why) &&
                        look_up("cuDevSmResourceSplitByCount", api.split_by_count, why) &&
                        look_up("cuDevResourceGenerateDesc", api.generate_description, why) &&
                        look_up("cuGreenCtxCreate", api.green_context_create, why) &&
                        look_up("cuGreenCtxDestroy", api.green_context_destroy, why) &&
                        look_up("cuGreenCtxStreamCreate", api.green_context_stream_create, why) &&
                        look_up("cuCtxFromGreenCtx", api.context_of_green, why) &&
                        look_up("cuCtxPushCurrent", api.push_current, why) &&
                        look_up("cuCtxPopCurrent", api.pop_current, why);
  if (!complete) return {std::nullopt, why};
  return {api, ""};
}

void check_driver(const DriverApi& api, CUresult status, const char* expression, const char* file,
                  int line) {
  if (status == CUDA_SUCCESS) return;
  const char* text = nullptr;
  if (api.get_error_string(status, &text) != CUDA_SUCCESS || text == nullptr)
    text = "an error without a name";
  fail_call("CUDA driver", text, expression, file, line);
}

}  // namespace weir
