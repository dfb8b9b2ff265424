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

// The object as text, its key "sha256", the last one, its seal; `indent` as nlohmann's dump.
[[nodiscard]] std::string sealed_text(Json object, int indent);

// Throws InputError where the text of `file` has no key "sha256" or is not as it was sealed.
void require_seal(const std::string& text, const std::string& file);

}  // namespace weir
