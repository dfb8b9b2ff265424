// Whose job a file is, by the keys that it is known by: for a message that names the tool where a
// file was given as something else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace weir {

struct ForeignTool {
  std::string_view name;    // as people call it
  std::string_view reader;  // the importer's word; empty: no importer reads it
};

// A name of none where no tool is recognised.
[[nodiscard]] ForeignTool foreign_tool(std::string_view text);

// The same of a file that may be one of our own: a plan keeps the lines of the job that it was read
// from, and yet is no job. Whatever says a schema is of none.
[[nodiscard]] ForeignTool tool_of_text(const std::string& text);

}  // namespace weir
