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
};
[[nodiscard]] std::vector<ReportColumn> report_columns(const std::vector<ListedReport>& reports);

// "10 reports. Of the 6 whose plans were run the forecast was off by 3.1 % in the median."
[[nodiscard]] std::string summary_of(const std::vector<ListedReport>& reports);

[[nodiscard]] std::string index_html(const std::vector<ListedReport>& reports,
                                     const Provenance& provenance);

}  // namespace weir::app
