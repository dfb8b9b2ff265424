// Configs of models that see or hear beside reading: their text is a model of a known family.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plan/text/strict_json.hpp"

namespace weir {

struct TextPart {
  Json config;
  std::string where;                 // of it in the file; empty: it is the file
  std::vector<std::string> remarks;  // what of the file is left out
};

// The config of the text within such a file, with what its class has where a nested config is
// silent; any other file as it is.
[[nodiscard]] TextPart text_part(const Json& file_config, const std::string& file);

}  // namespace weir
