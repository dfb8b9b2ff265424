// Formulas as maps from exponents to coefficients.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/polynomial.hpp"

#include <fmt/format.h>

#include <cassert>

namespace weir::layout {
namespace {

// The symbols whose exponent has this sign, each as often as its exponent says, joined by '*'.
std::string product(const Powers& powers, const Symbols& symbols, int sign, int& factors) {
  std::string text;
  for (std::size_t s = 0; s < powers.size(); ++s) {
    for (int i = 0; i < sign * powers[s]; ++i) {
      text += (text.empty() ? "" : "*") + symbols.names[s];
      ++factors;
    }
  }
  return text;
}

}  // namespace

Polynomial::Polynomial(const Powers& powers, std::int64_t coefficient) {
  if (coefficient != 0) terms_.emplace(powers, coefficient);
}

Polynomial& Polynomial::operator+=(const Polynomial& other) {
  for (const auto& [powers, coefficient] : other.terms_) {
    const auto [at, fresh] = terms_.emplace(powers, coefficient);
    // Terms that cancel are taken out, so that equal formulas are equal maps.
    if (!fresh && (at->second += coefficient) == 0) terms_.erase(at);
  }
  return *this;
}

Polynomial Polynomial::without_constants() const {
  Polynomial result = *this;
  for (auto& term : result.terms_) term.second = 1;
  return result;
}

Polynomial Polynomial::times(std::int64_t factor) const {
  Polynomial result;
  for (const auto& [powers, coefficient] : terms_)
    result += Polynomial(powers, coefficient * factor);
  return result;
}

Polynomial Polynomial::divided_by(const Powers& divisor) const {
  Polynomial result;
  for (const auto& [powers, coefficient] : terms_) {
    assert(powers.size() == divisor.size() && "two formulas over different tables of symbols");
    Powers quotient = powers;
    for (std::size_t s = 0; s < quotient.size(); ++s) quotient[s] -= divisor[s];
    result += Polynomial(quotient, coefficient);
  }
  return result;
}

std::string to_text(const Powers& powers, const Symbols& symbols) {
  int above = 0;
  int below = 0;
  const std::string numerator = product(powers, symbols, 1, above);
  const std::string denominator = product(powers, symbols, -1, below);
  std::string first = above == 0 ? "1" : numerator;
  if (below == 0) return first;
  return below == 1 ? first + "/" + denominator : fmt::format("{}/({})", first, denominator);
}

std::string to_text(const Polynomial& polynomial, const Symbols& symbols) {
  std::string text;
  for (const auto& [powers, coefficient] : polynomial.terms()) {
    const std::string monomial = to_text(powers, symbols);
    text += text.empty() ? "" : " + ";
    if (coefficient == 1) {
      text += monomial;
    } else {  // "1/n" keeps its slash, "3/n" not "3*1/n"
      text += monomial.starts_with("1/") ? fmt::format("{}{}", coefficient, monomial.substr(1))
              : monomial == "1"          ? fmt::format("{}", coefficient)
                                         : fmt::format("{}*{}", coefficient, monomial);
    }
  }
  return text.empty() ? "0" : text;
}

double value(const Powers& powers, const Symbols& symbols) {
  double above = 1;
  double below = 1;
  for (std::size_t s = 0; s < powers.size(); ++s) {
    for (int i = 0; i < powers[s]; ++i) above *= static_cast<double>(symbols.values[s]);
    for (int i = 0; i < -powers[s]; ++i) below *= static_cast<double>(symbols.values[s]);
  }
  return above / below;
}

double value(const Polynomial& polynomial, const Symbols& symbols) {
  double sum = 0;
  for (const auto& [powers, coefficient] : polynomial.terms()) {
    sum += static_cast<double>(coefficient) * value(powers, symbols);
  }
  return sum;
}

}  // namespace weir::layout
