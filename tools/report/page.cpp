// SPDX-License-Identifier: Apache-2.0
#include "tools/report/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/report/vector.hpp"

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
  if (bubble < 0.05) return "the work itself (bubble below 5 %)";
  // In the order of kIdleCauses.
  constexpr std::array kCauses{"filling the pipeline", "draining it", "imbalance between stages",
                               "communication",        "the host",    "waiting for the optimizer"};
  std::array<Nanoseconds, kIdleCauses.size()> lost{};
  for (const RankMetrics& rank : step.ranks) {
    for (std::size_t c = 0; c < lost.size(); ++c) lost[c] += rank.idle.*kIdleCauses[c].time;
  }
  return kCauses.at(std::max_element(lost.begin(), lost.end()) - lost.begin());
}

}  // namespace weir
