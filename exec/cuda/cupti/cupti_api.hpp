// CUPTI's functions, looked up while the program runs: a binary must start on a machine without the
// library, and a run that records no kernels must not load it, since it makes every CUDA call a
// little slower.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cupti_activity.h>
#include <cupti_result.h>
#include <cupti_version.h>

#include <optional>
#include <string>
#include <vector>

namespace weir {

struct CuptiApi {
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) get_result_string = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push_external_id = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_external_id = nullptr;
};

struct CuptiLookup {
  std::optional<CuptiApi> api;  // all of it, or nothing
  std::string why;              // one line: which it is, or why there is none
};

// Names under which the library of this build's CUDA may be found: on the search path, beside the
// runtime's library, and in extras/CUPTI of a toolkit.
[[nodiscard]] std::vector<std::string> cupti_libraries();

// The first of the libraries that can be loaded. It stays loaded: CUPTI has a thread of its own.
// Never throws for want of a library or a function.
[[nodiscard]] CuptiLookup find_cupti(const std::vector<std::string>& libraries);

// Throws MissingComponent with the reason instead.
[[nodiscard]] CuptiApi require_cupti(const std::vector<std::string>& libraries);

[[nodiscard]] std::string cupti_reason(const CuptiApi& api, CUptiResult status);

// Throws RunFailed with CUPTI's words, the expression, file and line.
void check_cupti(const CuptiApi& api, CUptiResult status, const char* expression, const char* file,
                 int line);

}  // namespace weir

#define CUPTI_CHECK(api, expression) \
  ::weir::check_cupti((api), (expression), #expression, __FILE__, __LINE__)
