// The one-line texts of a layout file: "x[batch, io]" and "h = relu(x w)".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/layout/program.hpp"

namespace weir::layout {

struct TensorText {
  std::string name;
  std::vector<std::string> dimensions;
};
struct EinsumText {
  std::string output;
  Function function = Function::none;
  std::vector<std::string> inputs;
};

// Letters, digits and '_', not beginning with a digit; 32 characters at most.
[[nodiscard]] bool is_name(std::string_view text);

// nullopt where the text is anything else.
[[nodiscard]] std::optional<TensorText> parse_tensor(std::string_view text);
[[nodiscard]] std::optional<EinsumText> parse_einsum(std::string_view text);

// Without the blanks around it; and the pieces between separators, trimmed ("" has none).
[[nodiscard]] std::string_view trimmed(std::string_view text);
[[nodiscard]] std::vector<std::string> pieces(std::string_view text, char separator);

}  // namespace weir::layout
