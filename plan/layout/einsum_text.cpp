// Parses the one-line texts of layout files.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/einsum_text.hpp"

#include <algorithm>

namespace weir::layout {
namespace {

constexpr std::size_t kLongestName = 32;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool all_names(const std::vector<std::string>& names) {
  return !names.empty() &&
         std::ranges::all_of(names, [](const std::string& name) { return is_name(name); });
}

}  // namespace

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && is_letter(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c); });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string> pieces(std::string_view text, char separator) {
  std::vector<std::string> found;
  if (trimmed(text).empty()) return found;
  while (true) {
    const auto at = text.find(separator);
    found.emplace_back(trimmed(text.substr(0, at)));
    if (at == std::string_view::npos) return found;
    text.remove_prefix(at + 1);
  }
}

std::optional<TensorText> parse_tensor(std::string_view text) {
  text = trimmed(text);
  const auto open = text.find('[');
  if (open == std::string_view::npos || text.back() != ']') return std::nullopt;
  TensorText tensor{std::string(text.substr(0, open)),
                    pieces(text.substr(open + 1, text.size() - open - 2), ',')};
  if (!is_name(tensor.name) || !all_names(tensor.dimensions)) return std::nullopt;
  return tensor;
}

std::optional<EinsumText> parse_einsum(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  EinsumText einsum;
  einsum.output = trimmed(text.substr(0, equals));
  std::string_view product = trimmed(text.substr(equals + 1));
  if (product.starts_with("relu(") && product.ends_with(")")) {
    einsum.function = Function::relu;
    product = product.substr(5, product.size() - 6);
  }
  einsum.inputs = pieces(product, ' ');
  std::erase(einsum.inputs, "");  // several blanks are one
  if (!is_name(einsum.output) || !all_names(einsum.inputs)) return std::nullopt;
  return einsum;
}

}  // namespace weir::layout
