// Which arguments hold what is nobody else's: their values are neither kept nor shown.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace weir {

// "--wandb-key", "metrics.hf_token", "--api-secret", "password": by the name's last word.
[[nodiscard]] bool names_a_secret(std::string_view name);

// "https://name:password@host": whatever the argument is called.
[[nodiscard]] bool holds_a_password(std::string_view value);

// Whether a value is neither kept nor shown, by its name or by itself.
[[nodiscard]] inline bool is_secret(std::string_view name, std::string_view value) {
  return names_a_secret(name) || holds_a_password(value);
}

// What is said in the place of such a value.
inline constexpr const char* kSecretValue = "a secret, not shown";

}  // namespace weir
