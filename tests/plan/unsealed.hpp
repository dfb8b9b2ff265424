// A file that Weir wrote as somebody leaves it who edits it by hand: without its seal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

// Precondition: the text has a seal, and it is not the first key of its object.
inline std::string unsealed(std::string text) {
  const std::size_t key = text.rfind("\"sha256\""), comma = text.rfind(',', key);
  const std::size_t digits = text.find('"', key + 8) + 1, end = text.find('"', digits) + 1;
  return text.erase(comma, end - comma);
}

}  // namespace weir
