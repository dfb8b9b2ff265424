// The models that torchtitan knows by name and flavour.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "plan/model/model.hpp"

namespace weir {

// The layers of torchtitan's models/NAME/__init__.py, flavours of llama3, qwen3, deepseek_v3 and
// gpt_oss, for sequences of `seq_length` tokens; none: another model or flavour.
[[nodiscard]] std::optional<Model> torchtitan_model(std::string_view name, std::string_view flavor,
                                                    std::int64_t seq_length);

}  // namespace weir
