// An amount of money: in files "2.50 USD", for people "1,240 USD".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir {

struct Price {
  double amount = 0;     // finite, not negative
  std::string currency;  // three capital letters, as ISO 4217 has them

  bool operator==(const Price&) const = default;
  friend Price operator*(Price price, double times) {
    price.amount *= times;
    return price;
  }
};

// An amount from 0 to 1e9, at most one space, three capital letters; nullopt for anything else.
[[nodiscard]] std::optional<Price> parse_price(std::string_view text);
// Reads back as the same.
[[nodiscard]] std::string to_string(const Price& price);
// For people: "2.50 USD", from 1,000 on and below a cent to four digits: "167,700 USD".
[[nodiscard]] std::string format_price(const Price& price);
[[nodiscard]] std::string format_amount(const Price& price);

}  // namespace weir
