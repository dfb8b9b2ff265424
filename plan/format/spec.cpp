// Presence of keys, and their rows.
// SPDX-License-Identifier: Apache-2.0
#include "plan/format/spec.hpp"

#include <fmt/format.h>

#include <utility>

namespace weir::format {

bool is_there(const Spec& key, JsonObject& object) {
  if (key.may_lack && !object.has(key.name)) return false;
  return !key.may_be_null || !object.at(key.name).is_null();
}

void put(const Spec& key, Json value, Json& object) { object[key.name] = std::move(value); }

std::string describe_key(const Spec& key, const std::string& within, Rows& rows) {
  std::string path = within + key.name;
  std::string type = key.type;
  // "list of objects" whose keys stand elsewhere is a list of what that section describes.
  if (key.section != nullptr)
    type = fmt::format("{}`{}`", type.starts_with("list") ? "list of " : "", key.section);
  if (key.may_be_null && !key.may_lack) type += " or null";
  if (!type.empty()) rows.push_back({path, type, key.cells});
  return path;
}

}  // namespace weir::format
