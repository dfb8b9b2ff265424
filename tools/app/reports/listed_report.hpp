// A report that was found, as a row of an index.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/report/card.hpp"

namespace weir::app {

struct ListedReport {
  // As it was come to; UTF-8, bytes that are none of it as "\xff".
  std::string file;
  // In short: its path from the index, without what all reports are called ("runs/a", of
  // runs/a/report.html); the whole where that says nothing or is another's too. UTF-8.
  std::string name;
  std::string link;  // from the index, as an address
  ReportCard card;
};

}  // namespace weir::app
