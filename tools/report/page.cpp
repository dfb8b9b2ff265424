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
  std::array<std::pair<const char*, double>, 6> causes{{{"filling the pipeline", 0},
                                                        {"draining it", 0},
                                                        {"imbalance between stages", 0},
                                                        {"communication", 0},
                                                        {"the host", 0},
                                                        {"waiting for the optimizer", 0}}};
  for (const RankMetrics& rank : step.ranks) {
    const Nanoseconds times[] = {rank.idle.fill,          rank.idle.drain, rank.idle.imbalance,
                                 rank.idle.communication, rank.idle.host,  rank.idle.optimizer};
    for (std::size_t i = 0; i < causes.size(); ++i)
      causes[i].second += to_seconds(times[i]).count();
  }
  const auto worst =
      std::max_element(causes.begin(), causes.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (bubble < 0.05) return "the work itself (bubble below 5 %)";
  return worst->first;
}

}  // namespace weir
