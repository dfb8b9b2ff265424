// What each layout of a program of einsums costs a processor, derived; or the layouts run for real
// beside the time predicted from the derivation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "tools/app/model/layout_run.hpp"
#include "tools/app/shared/field.hpp"

namespace weir::app {

struct LayoutsRequest {
  std::optional<std::filesystem::path> file;
  bool run = false;
  int workers = 0;  // 0: all cores this process may use
  int rounds = 15;
};
[[nodiscard]] Fields run_fields(LayoutsRequest& request);  // all but the file

struct LayoutsResult {
  layout::LayoutFile file;
  LayoutRunRequest request;
  std::optional<LayoutRunResult> run;
};

// Precondition: `file` is given, and is one of einsums. Throws as load_layouts and run_layouts do,
// UsageError for numbers that cannot be.
// `file`: what was read of the request's.
[[nodiscard]] LayoutsResult layouts(layout::LayoutFile file, const LayoutsRequest& request,
                                    std::uint64_t seed, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const LayoutsResult& result);  // weir.layout_costs/1

}  // namespace weir::app
