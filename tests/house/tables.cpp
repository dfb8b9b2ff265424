// Prints the tables of docs/formats.md that descriptions of formats give (plan/format): JSON, from
// a section's title to its rows of key, type and the other cells. For tests/house/tables_test.py.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "costmodel/table/costs_sections.hpp"
#include "plan/job/formats.hpp"
#include "plan/layout/network_json.hpp"
#include "plan/text/strict_json.hpp"

int main() {
  weir::Json tables;
  for (const auto& sections :
       {weir::cluster_sections(), weir::costs_sections(), weir::plan_sections(),
        weir::stack_sections(), weir::layout::layout_sections()}) {
    for (const auto& [title, rows] : sections) {
      for (const auto& [key, type, cells] : rows) tables[title].push_back({key, type, cells});
    }
  }
  fmt::print("{}\n", tables.dump());
}
