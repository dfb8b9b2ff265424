// Models from Hugging Face `config.json` files, one reader a family. Sizes must be there; what else
// a family's class has a default for takes it; keys that mean nothing to the shapes are counted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/model/model.hpp"
#include "plan/text/strict_json.hpp"

namespace weir {

// Throws InputError with file and key, also for families it does not know.
[[nodiscard]] Model hugging_face_model(const Json& json, const std::string& file);

}  // namespace weir
