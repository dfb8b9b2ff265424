// Where constants come from: an object beside them, from the constant's path to its source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

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

}  // namespace weir
