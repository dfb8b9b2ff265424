// A report that was found, as a row of an index.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "tools/report/card.hpp"

namespace weir::app {

struct ListedReport {
  std::filesystem::path file;  // as it was come to
  // In short: its path from the index, without what all reports are called ("runs/a", of
  // runs/a/report.html).
  std::string name;
  std::string link;  // from the index, as an address
  ReportCard card;
};

}  // namespace weir::app
