// A TOML file changed where two others differ, and left as it stands elsewhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

struct ChangedToml {
  std::string text;
  bool in_place = true;  // false: written anew, without its comments and the order of its keys
};

// `text` where what differs between `before` and `after` is as in `after`: values, and keys that
// one of them lacks. Where a value stands keeps its lines and comments, but for keys in places that
// cannot be edited alone, as in a table on one line. All three are TOML, else InputError.
[[nodiscard]] ChangedToml changed_toml(const std::string& text, const std::string& before,
                                       const std::string& after, const std::string& file);

}  // namespace weir
