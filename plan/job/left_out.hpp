// A machine's or a stack's file as it were if nobody had seen some source of measured runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "plan/text/strict_json.hpp"

namespace weir {

// Of one constant's certificate, "left_out": by source of measured runs that were seen when it was
// chosen, what it is without them: 1, 0, a data sheet's or another device's figure; null: as where
// its key is not there.
using LeftOut = std::map<std::string, Json>;
[[nodiscard]] LeftOut read_left_out(JsonObject& certificate);

// Each constant that was chosen seeing runs of `source` is what its certificate says it is without
// them. A file without certificates stays as it is.
[[nodiscard]] Json without_source(Json file, const std::string& source);

}  // namespace weir
