// What people read of `weir reports`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/reports/reports.hpp"

#include <fmt/core.h>

#include "tools/app/reports/index_page.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {

void print(Printout& out, const app::ReportsRequest& /*request*/,
           const app::ReportsResult& result) {
  const std::vector<app::ReportColumn> columns = app::report_columns(result.reports);
  Table table;
  for (const app::ReportColumn& column : columns) {
    // Figures stand below each other by their ends.
    table.columns.push_back(column.figure ? Column{std::string(column.head)}
                                          : left(std::string(column.head)));
  }
  for (const app::ListedReport& report : result.reports) {
    std::vector<Cell>& row = table.rows.emplace_back();
    for (const app::ReportColumn& column : columns) {
      const auto value = column.value == nullptr ? std::nullopt : column.value(report);
      const std::string text = app::cell(column, report);
      row.push_back(value ? number(*value, text, column.unit) : text);
    }
  }
  out.show(table);
  out.say("{}\n{}\n", app::summary_of(result.reports), result.output.string());
}

}  // namespace weir
