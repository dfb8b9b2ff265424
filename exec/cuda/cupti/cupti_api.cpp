// CUPTI looked up while the program runs.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cupti/cupti_api.hpp"

#include <fmt/format.h>

#include <utility>

#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/cuda/driver/shared_library.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// CUPTI counts like CUDA since 13.0 (130001), and by ones before.
std::string version_text(const CuptiApi& api) {
  std::uint32_t version = 0;
  if (api.get_version(&version) != CUPTI_SUCCESS) return "of an unknown version";
  return version >= 100'000 ? fmt::format("{}.{}", version / 10'000, version / 100 % 100)
                            : fmt::format("API version {}", version);
}

}  // namespace

std::vector<std::string> cupti_libraries() {
  return library_names(fmt::format("libcupti.so.{}", CUDART_VERSION / 1000),
                       {"../extras/CUPTI/lib64"});
}

CuptiLookup find_cupti(const std::vector<std::string>& libraries) {
  CuptiApi api;
  std::string why = find_entries(
      libraries, Entry{"cuptiGetVersion", api.get_version},
      Entry{"cuptiGetResultString", api.get_result_string},
      Entry{"cuptiActivityRegisterCallbacks", api.register_callbacks},
      Entry{"cuptiActivityEnable", api.enable}, Entry{"cuptiActivityDisable", api.disable},
      Entry{"cuptiActivityFlushAll", api.flush_all},
      Entry{"cuptiActivityGetNextRecord", api.next_record},
      Entry{"cuptiActivityGetNumDroppedRecords", api.dropped_records},
      Entry{"cuptiActivityPushExternalCorrelationId", api.push_external_id},
      Entry{"cuptiActivityPopExternalCorrelationId", api.pop_external_id});
  if (!why.empty()) return {std::nullopt, std::move(why)};
  return {api, version_text(api) + ": records the kernels of a run"};
}

CuptiApi require_cupti(const std::vector<std::string>& libraries) {
  const CuptiLookup cupti = find_cupti(libraries);
  if (!cupti.api)
    throw MissingComponent(fmt::format("recording kernels needs CUPTI: {}", cupti.why));
  return *cupti.api;
}

std::string cupti_reason(const CuptiApi& api, CUptiResult status) {
  const char* text = nullptr;
  if (api.get_result_string(status, &text) != CUPTI_SUCCESS || text == nullptr)
    return "an error without a name";
  return text;
}

void check_cupti(const CuptiApi& api, CUptiResult status, const char* expression, const char* file,
                 int line) {
  if (status != CUPTI_SUCCESS)
    fail_call("CUPTI", cupti_reason(api, status), expression, file, line);
}

}  // namespace weir
