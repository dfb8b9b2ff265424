// `reports`: the reports below some folders as one page, a row each, which leads to each of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "tools/app/reports/listed_report.hpp"
#include "tools/app/shared/field.hpp"

namespace weir::app {

struct ReportsRequest {
  std::vector<std::filesystem::path> folders;  // or reports themselves
  std::filesystem::path output = "reports.html";
};
[[nodiscard]] Fields fields(ReportsRequest& request);

struct ReportsResult {
  std::filesystem::path output;
  std::vector<ListedReport> reports;  // the newest first, those of one day by name
};

// Throws InputError for what is no folder and no report, and where there is no report at all; one
// whose card cannot be read is noted and left out.
[[nodiscard]] ReportsResult reports(const ReportsRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const ReportsResult& result);  // weir.reports/1

inline constexpr UseCase<ReportsRequest, ReportsResult> kReports{
    "reports", "List the reports of folders on one page", &reports};

}  // namespace weir::app
