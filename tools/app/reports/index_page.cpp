// Reports as rows.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/reports/index_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "plan/text/quote.hpp"
#include "tools/report/page.hpp"
#include "tools/report/svg.hpp"
#include "traces/stats.hpp"

namespace weir::app {
namespace {

std::string duration(const std::optional<Seconds>& time) {
  return time ? format_duration(*time) : std::string();
}

std::optional<double> seconds(const std::optional<Seconds>& time) {
  return time ? std::optional(time->count()) : std::nullopt;
}

// Of one plan it has a sign; of many it is a median, of no sign.
std::string error_text(const ListedReport& report) {
  const ReportCard& card = report.card;
  if (!card.error) return "";
  return card.plan.empty() ? fmt::format("{:.1f} % median", *card.error * 100)
                           : fmt::format("{:+.1f} %", *card.error * 100);
}

std::optional<double> error_percent(const ListedReport& report) {
  return report.card.error ? std::optional(*report.card.error * 100) : std::nullopt;
}

// Texts begin at their left and go on below. Where a page is narrow, on a telephone or on paper, a
// row is a block of lines, each with what stood above its column.
constexpr const char* kStyle = R"(
.reports td,.reports th{text-align:left;white-space:normal;vertical-align:top}
.reports .figure{text-align:right;white-space:nowrap}
@media(max-width:800px){.reports tr:first-child{display:none}
.reports table,.reports tbody,.reports tr{display:block}
.reports tr{border-bottom:1px solid var(--rule);padding:8px 0}
.reports td,.reports .figure{display:flex;border:0;text-align:left;white-space:normal;padding:1px 0}
.reports td:first-child{font-size:15px;max-width:none;position:static}
.reports td:not(:first-child)::before{content:attr(data-head);flex:none;width:90px;)"
                               R"(color:var(--soft)}
.reports td:empty{display:none}}
)";

constexpr std::array kColumns{
    ReportColumn{"report", [](const ListedReport& r) { return r.name; }},
    ReportColumn{"forecast", [](const ListedReport& r) { return duration(r.card.forecast); }, true,
                 [](const ListedReport& r) { return seconds(r.card.forecast); }, "s"},
    ReportColumn{"measured", [](const ListedReport& r) { return duration(r.card.measured); }, true,
                 [](const ListedReport& r) { return seconds(r.card.measured); }, "s"},
    ReportColumn{"error", &error_text, true, &error_percent, "%"},
    ReportColumn{"model", [](const ListedReport& r) { return r.card.model; }},
    ReportColumn{"plan", [](const ListedReport& r) { return r.card.plan; }},
    ReportColumn{"date", [](const ListedReport& r) { return r.card.date; }},
    ReportColumn{"made by", [](const ListedReport& r) { return "weir " + r.card.command; }},
    ReportColumn{"machine", [](const ListedReport& r) { return r.card.machine; }},
};

}  // namespace

std::vector<ReportColumn> report_columns(const std::vector<ListedReport>& reports) {
  std::vector<ReportColumn> said;
  std::ranges::copy_if(kColumns, std::back_inserter(said), [&](const ReportColumn& column) {
    return std::ranges::any_of(
        reports, [&](const ListedReport& report) { return !column.text(report).empty(); });
  });
  return said;
}

std::string cell(const ReportColumn& column, const ListedReport& report) {
  return printable_in_line(column.text(report));
}

std::string summary_of(const std::vector<ListedReport>& reports) {
  std::string text = fmt::format("{} report{}.", reports.size(), reports.size() == 1 ? "" : "s");
  std::vector<double> errors;
  for (const ListedReport& report : reports) {
    if (report.card.measured && report.card.error) errors.push_back(std::abs(*report.card.error));
  }
  // Of one its own row says it.
  if (errors.size() < 2) return text;
  return text + fmt::format(
                    " The forecast of the plan to use was off by {:.1f} % in the median of the {} "
                    "that measured it.",
                    median(errors) * 100, errors.size());
}

std::string index_html(const std::vector<ListedReport>& reports, const Provenance& provenance) {
  const std::vector<ReportColumn> columns = report_columns(reports);
  const auto kind = [](const ReportColumn& column) {
    return column.figure ? " class=\"figure\"" : "";
  };
  std::string rows = "<tr>";
  for (const ReportColumn& column : columns)
    rows += fmt::format("<th{}>{}</th>", kind(column), column.head);
  rows += "</tr>\n";
  for (const ListedReport& report : reports) {
    rows += "<tr>";
    for (const ReportColumn& column : columns) {
      std::string text = escape(cell(column, report));
      if (&column == &columns.front())
        text = fmt::format("<a href=\"{}\">{}</a>", escape(report.link), text);
      rows += fmt::format("<td{} data-head=\"{}\">{}</td>", kind(column), column.head, text);
    }
    rows += "</tr>\n";
  }
  const std::string body =
      fmt::format("<style>{}</style>\n<p>{}</p>\n<div class=\"reports\">{}</div>\n", kStyle,
                  summary_of(reports), html_table(rows));
  return html_page("Reports", body, provenance);
}

}  // namespace weir::app
