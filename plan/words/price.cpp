// Money from text and back.
// SPDX-License-Identifier: Apache-2.0
#include "plan/words/price.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "plan/words/figures.hpp"

namespace weir {

std::optional<Price> parse_price(std::string_view text) {
  constexpr double kMost = 1e9;  // an hour of a device costs less in any currency
  // A digit first: no sign, no "inf".
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  double amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  if (error != std::errc{} || amount > kMost) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  const auto capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (text.size() != 3 || !std::ranges::all_of(text, capital)) return std::nullopt;
  return Price{amount, std::string(text)};
}

std::string to_string(const Price& price) {
  return fmt::format("{} {}", price.amount, price.currency);
}

std::string format_amount(const Price& price) {
  // Cents, where there are any: from half a cent on, and until they round to 1,000.
  constexpr double kLeast = 0.005, kMost = 999.995;
  if (price.amount >= kLeast && price.amount < kMost) return fmt::format("{:.2f}", price.amount);
  return format_figure(price.amount, 4);
}

std::string format_price(const Price& price) { return format_amount(price) + " " + price.currency; }

}  // namespace weir
