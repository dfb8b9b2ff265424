// Texts that toml++ would not survive are refused.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/toml/parse.hpp"

#include <fmt/format.h>

#include "plan/words/error.hpp"

namespace weir {

toml::table parse_toml(const std::string& text, const std::string& file) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw InputError(file, fmt::format("line {}", error.source().begin.line),
                     fmt::format("no valid TOML: {}", error.description()));
  } catch (const TomlFault& fault) {
    throw InputError(file, "", fmt::format("no valid TOML: does not hold: {}", fault.what()));
  }
}

}  // namespace weir
