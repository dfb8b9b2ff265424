// Which parts of a block Megatron leaves with the host (--offload-modules), as shares of what a
// plan counts: all that a block keeps from its forward to its backward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/model/model.hpp"

namespace weir {

// Of a model's first block the share that a module's input has of what it keeps; nullopt for
// another word, and of a model without blocks.
[[nodiscard]] std::optional<double> offloaded_share(std::string_view module, const Model& model);

// The largest share that Megatron's modules hold, and those that the model's blocks have, as
// --offload-modules takes them.
[[nodiscard]] double offloadable_share(const Model& model);
[[nodiscard]] std::string offload_modules(const Model& model);

}  // namespace weir
