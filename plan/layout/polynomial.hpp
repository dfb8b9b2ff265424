// Sums of products of powers, for counts that people should be able to read: b*d_io/n + d_io*d_h. A
// symbol is an index; its name and its value are in a table of their own, so that one formula
// prints and evaluates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace weir::layout {

struct Symbols {
  std::vector<std::string> names;
  std::vector<std::int64_t> values;  // at least 1 each
};

// The exponent of each symbol; a negative one divides.
using Powers = std::vector<int>;

class Polynomial {
 public:
  Polynomial() = default;  // zero
  explicit Polynomial(const Powers& powers, std::int64_t coefficient = 1);

  Polynomial& operator+=(const Polynomial& other);
  friend Polynomial operator+(Polynomial a, const Polynomial& b) { return a += b; }
  bool operator==(const Polynomial&) const = default;

  // Every coefficient becomes 1: what a table prints whose "constants are dropped".
  [[nodiscard]] Polynomial without_constants() const;
  [[nodiscard]] Polynomial times(std::int64_t factor) const;
  [[nodiscard]] Polynomial divided_by(const Powers& divisor) const;

  // Terms in the order in which they print: the earliest symbol's highest power first.
  using Terms = std::map<Powers, std::int64_t, std::greater<>>;
  [[nodiscard]] const Terms& terms() const { return terms_; }

 private:
  Terms terms_;  // no zero coefficients
};

// "b*d_io/(r*c)", "1"; "2*b*d_io + d_h/n", "0".
[[nodiscard]] std::string to_text(const Powers& powers, const Symbols& symbols);
[[nodiscard]] std::string to_text(const Polynomial& polynomial, const Symbols& symbols);

// In double: exact below 2^53 wherever the divisions leave no remainder.
[[nodiscard]] double value(const Powers& powers, const Symbols& symbols);
[[nodiscard]] double value(const Polynomial& polynomial, const Symbols& symbols);

}  // namespace weir::layout
