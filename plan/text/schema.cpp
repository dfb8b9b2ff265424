// A word under one key.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/schema.hpp"

namespace weir {

bool has_schema(const Json& json, std::string_view schema) {
  const auto said = json.is_object() ? json.find("schema") : json.end();
  return said != json.end() && *said == schema;
}

bool text_has_schema(const std::string& text, std::string_view schema) {
  return has_schema(Json::parse(text, nullptr, /*allow_exceptions=*/false), schema);
}

}  // namespace weir
