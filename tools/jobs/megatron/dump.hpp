// The list of arguments that Megatron prints when it starts, as it stands in logs and issues:
// "  num_layers ...................... 40", here and there with a rank or a time before it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace weir {

// As a command line; nullopt where the text has no such list, or a script beside it.
[[nodiscard]] std::optional<std::string> megatron_dump_arguments(const std::string& text);

}  // namespace weir
