// What a JSON file says it is, for who takes several kinds of files. Whoever reads one kind has
// JsonObject::expect_schema.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "plan/text/strict_json.hpp"

namespace weir {

// Whether its key "schema" is this; no for what is no object, null and discarded values too.
[[nodiscard]] bool has_schema(const Json& json, std::string_view schema);
// The same of a text, which may be no JSON further on: what says what it is, and is damaged, is to
// be blamed by who reads that kind.
[[nodiscard]] bool text_has_schema(const std::string& text, std::string_view schema);

}  // namespace weir
