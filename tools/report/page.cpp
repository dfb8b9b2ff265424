// The page around reports, and their words.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/report/svg.hpp"

namespace weir {
namespace {

constexpr const char* kStyle =
    R"(body{font:15px/1.45 system-ui,sans-serif;margin:24px auto;max-width:1120px;color:#222}
h1{font-size:22px;margin:0 0 4px}h2{font-size:17px;margin:26px 0 6px}p{margin:6px 0}
table{border-collapse:collapse;font-size:13px}th,td{padding:3px 8px;text-align:right;)"
    R"(white-space:nowrap;border-bottom:1px solid #e4e4e4}
th:first-child,td:first-child{text-align:left}.best{font-weight:600}.note{color:#666;)"
    R"(font-size:13px}svg{max-width:100%;height:auto})";

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta "
      "charset=\"utf-8\"><title>{0}</title><style>{1}</style></head><body>\n"
      "<h1>{0}</h1>\n{2}</body></html>\n",
      escape(title), kStyle, body);
}

std::string limited_by(const StepMetrics& step, double bubble) {
  constexpr std::array kLimits{IdleCause{"filling the pipeline", &IdleTime::fill},
                               IdleCause{"draining it", &IdleTime::drain},
                               IdleCause{"imbalance between stages", &IdleTime::imbalance},
                               IdleCause{"communication", &IdleTime::communication},
                               IdleCause{"the host", &IdleTime::host},
                               IdleCause{"waiting for the optimizer", &IdleTime::optimizer}};
  if (bubble < 0.05) return "the work itself (bubble below 5 %)";
  const auto whole = [&step](const IdleCause& cause) {
    Nanoseconds sum{0};
    for (const RankMetrics& rank : step.ranks) sum += rank.idle.*cause.time;
    return sum;
  };
  return std::ranges::max_element(kLimits, {}, whole)->name;
}

std::string busy_and_idle_heads() {
  std::string heads = "<th>busy</th>";
  for (const IdleCause& cause : kIdleCauses) heads += fmt::format("<th>{}</th>", cause.name);
  return heads;
}

std::string busy_and_idle_cells(const RankMetrics& rank) {
  const auto cell = [](Nanoseconds time) {
    return fmt::format("<td>{}</td>", format_duration(to_seconds(time)));
  };
  std::string cells = cell(rank.busy);
  for (const IdleCause& cause : kIdleCauses) cells += cell(rank.idle.*cause.time);
  return cells;
}

}  // namespace weir
