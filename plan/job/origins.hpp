// Where constants come from: an object beside them, from the constant's path to its source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/text/strict_json.hpp"

namespace weir {

struct Origin {
  std::string source;              // a file read (repository, commit, path), a datasheet, or rows
  std::optional<int> rows;         // how many it was fitted to; none: fitted to none
  std::string chosen_seeing = {};  // the errors that were visible when it was chosen
};

// By the path of a constant in its file, as "device.kernels.floor". An entry for an object stands
// for all that is in it.
using Origins = std::map<std::string, Origin>;

// "origins": {"PATH": {"source": ..., "rows": ..., "chosen_seeing": ...}}. Throws InputError, also
// for a constant that was fitted to fewer than three rows.
[[nodiscard]] Origins read_origins(JsonObject object);
[[nodiscard]] Json to_json(const Origins& origins);

// The entry of the path itself or of the nearest object around it; nullptr: there is none.
[[nodiscard]] const Origin* origin_of(const Origins& origins, const std::string& path);

// What is at the path, and all within it, comes from `source` now.
void replace_origin(Origins& origins, const std::string& path, std::string source);

// A constant of a file: a number, a quantity, a flag or a word; a list is one constant.
struct Constant {
  std::string path;
  Json value;
  const Origin* origin = nullptr;  // nullptr: nothing says where it comes from
};
// All constants of a file but its schema, its name, and what says where they come from; by the
// file's order. The origins must outlive them.
[[nodiscard]] std::vector<Constant> constants_of(const Json& file, const Origins& origins);

// Throws InputError for the first constant that has no origin.
void check_origins(const Json& json, const Origins& origins, const std::string& file);

}  // namespace weir
