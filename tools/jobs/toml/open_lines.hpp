// A TOML text as a plan keeps it: without the lines of values that are secrets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace weir {

struct OpenLines {
  std::vector<std::string> lines;
  std::vector<std::string> left_out;  // keys, as the file has them
};

// Whole lines: what stands beside a secret on its line, as in an inline table, goes with it. Throws
// InputError where the text is no TOML.
[[nodiscard]] OpenLines open_lines(const std::string& text, const std::string& file);

}  // namespace weir
