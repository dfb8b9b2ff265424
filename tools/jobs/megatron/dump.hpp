// The list of arguments that Megatron prints when it starts, as it stands in logs and issues:
// "  num_layers ...................... 40", here and there with a rank or a time before it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace weir {

// Variables of argparse's namespace as Python prints them: True, None, ['a', 'b'], 1e-05.
using MegatronNamespace = std::map<std::string, std::string, std::less<>>;
[[nodiscard]] std::string megatron_namespace_arguments(MegatronNamespace values);

// As a command line; nullopt where the text has no such list, or a script beside it.
[[nodiscard]] std::optional<std::string> megatron_dump_arguments(const std::string& text);

// The flag by which Megatron turns off what is on by default, of a variable that has one.
[[nodiscard]] std::optional<std::string_view> denying_flag(std::string_view variable);

}  // namespace weir
