// Seals: a file that says itself whether it is as it was written. Its seal is the SHA-256 of all
// its bytes, in which the seal's own 64 digits count as zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "plan/text/strict_json.hpp"

namespace weir {

inline constexpr std::size_t kSealDigits = 64;
// What stands in a seal's place while the rest is written.
[[nodiscard]] inline std::string open_seal() { return std::string(kSealDigits, '0'); }

// The seal of these bytes, whose digits are at `at`. Precondition: they are within.
[[nodiscard]] std::string seal_of(std::string_view bytes, std::size_t at);

// The text, which holds open_seal() as the value of its last key "sha256", with its seal there.
[[nodiscard]] std::string sealed(std::string text);
// The object as text, its key "sha256", the last one, its seal; `indent` as nlohmann's dump.
[[nodiscard]] std::string sealed_text(Json object, int indent);

// Throws InputError where the text of `file` has a seal, in `holder`, and is not as it was sealed.
// Without one it is taken as it is: so a file is read that somebody edited.
void require_seal_if_any(const std::string& text, const Json& holder, const std::string& file);

// Throws InputError where the text of `file` has no key "sha256" or is not as it was sealed.
void require_seal(const std::string& text, const std::string& file);

}  // namespace weir
