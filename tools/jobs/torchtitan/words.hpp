// torchtitan's own names: of schedules, which are PyTorch's, and of the models whose sizes it
// knows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "tools/jobs/job/job.hpp"

namespace weir {

// PyTorch's and our names of the schedules that both have; empty where one has no such schedule.
[[nodiscard]] std::string_view schedule_from_torch(std::string_view name);
[[nodiscard]] std::string_view schedule_to_torch(std::string_view name);

// The flavours of llama3 whose sizes are known. Empty names mean none.
[[nodiscard]] std::optional<Decoder> torchtitan_llama3(std::string_view flavor);
[[nodiscard]] std::string_view torchtitan_flavor(
    const Model& model);  // the flavour with just these layers but for their angles, or ""

}  // namespace weir
