// The last word alone: --tokenizer-model and --moe-token-dispatcher-type are none.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/secret_names.hpp"

#include <algorithm>
#include <array>

namespace weir {

bool names_a_secret(std::string_view name) {
  constexpr std::array<std::string_view, 5> kSecrets{"key", "token", "secret", "password",
                                                     "passwd"};
  const std::string_view last = name.substr(name.find_last_of("-_.") + 1);
  return std::ranges::find(kSecrets, last) != kSecrets.end();
}

bool holds_a_password(std::string_view value) {
  for (auto at = value.find("://"); at != value.npos; at = value.find("://", at + 1)) {
    const std::string_view host =
        value.substr(at + 3, value.find_first_of("/ '\"", at + 3) - at - 3);
    const auto sign = host.find('@');
    if (sign != host.npos && host.substr(0, sign).find(':') != host.npos) return true;
  }
  return false;
}

}  // namespace weir
