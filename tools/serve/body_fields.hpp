// A request's JSON object as the fields of a use case, by the long names that the command has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plan/text/strict_json.hpp"
#include "tools/app/shared/field.hpp"

namespace weir {

// The file that complaints about a body name.
inline constexpr const char* kRequest = "request";

// A file that a request names: below the folder that is served, by a relative path without "..".
// Throws InputError.
[[nodiscard]] std::filesystem::path path_within(const std::string& text, const std::string& key);

// Sets the fields that the body has, of those that it may have; their names. null is as if it was
// left out. Throws InputError for another key, a value of another type or out of range, and for a
// required field that is missing.
std::set<std::string> fill(const app::Fields& fields, const std::vector<std::string_view>& allowed,
                           const Json& body);

// The same as someone types it: "weir simulate plan.json --cluster dgx-h100".
[[nodiscard]] std::string command_line_of(std::string_view command, const app::Fields& fields,
                                          const Json& body);

}  // namespace weir
