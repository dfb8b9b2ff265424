// The job of another tool that a plan was read from: it goes out again with what no plan says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir {

struct SourceJob {
  std::string tool;  // as --from names it; empty: a plan of our own
  int devices = 0;   // that it ran on, or was read for
  // What the job says and the plan does not, by the tool's names; in order.
  std::vector<std::string> left_out;
  // What the tool's reader reads as the job: the arguments of a script, one a line, or the file.
  // None where no exporter takes it up.
  std::vector<std::string> lines;
  [[nodiscard]] bool empty() const { return tool.empty(); }
  bool operator==(const SourceJob&) const = default;
};

// A file's lines, and the lines as a file.
[[nodiscard]] std::vector<std::string> job_lines(std::string_view text);
[[nodiscard]] std::string job_text(const std::vector<std::string>& lines);

}  // namespace weir
