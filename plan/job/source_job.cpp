// A job's text, as a plan keeps it.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/source_job.hpp"

#include <algorithm>

namespace weir {

std::vector<std::string> job_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string job_text(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace weir
