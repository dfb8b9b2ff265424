// Megatron-LM's own YAML recipes, those of its functional tests: a mapping MODEL_ARGS from
// arguments to values, which its runner puts on the command line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace weir {

// The command line: "--key: true" is a flag, "--key: false" not there, "[a b]" a list of words;
// lines of `text` keep their numbers. none: the text is no such recipe.
[[nodiscard]] std::optional<std::string> megatron_recipe_arguments(const std::string& text);

}  // namespace weir
