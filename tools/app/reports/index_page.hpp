// The page of `reports`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/app/reports/listed_report.hpp"
#include "tools/report/page.hpp"

namespace weir::app {

// A table as texts: what both the page and the command print. Columns in which no report says
// anything are left out.
struct ReportColumn {
  std::string_view head;
  std::string (*text)(const ListedReport& report);  // "" where the report does not say
  bool figure = false;
  // Of a figure, for programs: what the text rounds, and its unit.
  std::optional<double> (*value)(const ListedReport& report) = nullptr;
  std::string_view unit = {};
};
// What stands in it, in one line: what would steer a terminal is shown as what it is.
[[nodiscard]] std::string cell(const ReportColumn& column, const ListedReport& report);
[[nodiscard]] std::vector<ReportColumn> report_columns(const std::vector<ListedReport>& reports);

// "10 reports. The forecast of the plan to use was off by 3.1 % in the median of the 6 that
// measured it." Of an evaluation no plan is to be used: its median stands in its row.
[[nodiscard]] std::string summary_of(const std::vector<ListedReport>& reports);

[[nodiscard]] std::string index_html(const std::vector<ListedReport>& reports,
                                     const Provenance& provenance);

}  // namespace weir::app
