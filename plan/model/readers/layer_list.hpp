// Layer lists (weir.layers/1) written by us, and the one shape of theirs that has many keys.
// plan/model/readers/model_import reads the rest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/model/model.hpp"
#include "plan/text/strict_json.hpp"

namespace weir {

// A block of a layer list. `hidden` and `heads` must be there; every other key takes GPT-2's value.
[[nodiscard]] TransformerShape listed_transformer(JsonObject& layer);

// layer_norm (where the key is absent) or rms_norm.
[[nodiscard]] NormKind listed_norm(JsonObject& layer);

// The model as a layer list that loads to the same layers; equal neighbours are one entry with a
// count. Throws InputError for what a layer list has no words for (skips).
[[nodiscard]] std::string to_layer_list(const Model& model);

}  // namespace weir
