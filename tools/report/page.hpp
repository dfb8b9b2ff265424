// What reports share: the page around them, readable on a telephone and in the dark, and how it
// came about.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "tools/report/bars.hpp"
#include "tools/report/chart.hpp"
#include "tools/report/vector.hpp"

namespace weir {

// What a reader needs to make a page again.
struct Provenance {
  std::string command;  // as it was typed, or called; empty: not known
  std::string date;     // "2026-11-23"; empty: not known
  std::string version;  // of Weir, with its commit
  std::uint64_t seed = 1;
};

// What a whole page ends in: one that was cut short does not.
inline constexpr std::string_view kPageEnd = "</body></html>";

// One HTML file that needs no network; the title is escaped and heads the body, at whose end stands
// the provenance.
[[nodiscard]] std::string html_page(const std::string& title, const std::string& body,
                                    const Provenance& provenance);

// JSON for scripts and programs, under an id; nothing in it ends the part, for its "<" is escaped.
[[nodiscard]] std::string data_part(const std::string& id, const nlohmann::ordered_json& json);
[[nodiscard]] std::string data_opening(const std::string& id);  // what stands before the JSON

// A table: `rows` from <tr> on. It scrolls on its own where the page is narrower.
[[nodiscard]] std::string html_table(const std::string& rows);
// One whose cells are words, which go on in another line where it is narrow.
[[nodiscard]] std::string words_table(const std::string& rows);

// A chart, and bars, as wide as a telephone's page, as paper and as a desk's page: the page shows
// the one that fits. And a timeline whose actions say their name and duration where one points, and
// that can be zoomed and moved.
[[nodiscard]] std::string chart_figure(Chart chart);
[[nodiscard]] std::string bars_figure(BarChart chart);
[[nodiscard]] std::string timeline_figure(const Drawing& drawing);

}  // namespace weir
