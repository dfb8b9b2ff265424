// Integer expressions by precedence climbing.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/arithmetic.hpp"

#include <algorithm>
#include <array>

#include "plan/text/cells.hpp"
#include "tools/jobs/shell/tokens.hpp"

namespace weir {
namespace {

using Number = std::optional<std::int64_t>;

struct Operator {
  std::string_view text;
  int precedence;  // the higher binds first
};
// Longer ones before those that they begin with.
constexpr std::array<Operator, 16> kOperators{{{"**", 9},
                                               {"||", 1},
                                               {"&&", 2},
                                               {"==", 4},
                                               {"!=", 4},
                                               {"<<", 6},
                                               {">>", 6},
                                               {"<=", 5},
                                               {">=", 5},
                                               {"<", 5},
                                               {">", 5},
                                               {"+", 7},
                                               {"-", 7},
                                               {"*", 8},
                                               {"/", 8},
                                               {"%", 8}}};
constexpr int kDeepest = 64;

Number power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 || exponent > 62) return std::nullopt;
  std::int64_t result = 1;
  for (std::int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
  }
  return result;
}

Number divided(std::int64_t a, std::int64_t b, bool remainder) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return std::nullopt;
  return remainder ? a % b : a / b;
}

Number applied(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (op == "+" && !__builtin_add_overflow(a, b, &result)) return result;
  if (op == "-" && !__builtin_sub_overflow(a, b, &result)) return result;
  if (op == "*" && !__builtin_mul_overflow(a, b, &result)) return result;
  if (op == "/" || op == "%") return divided(a, b, op == "%");
  if (op == "**") return power(a, b);
  const bool shift = a >= 0 && b >= 0 && b < 32 && a < (std::int64_t{1} << 31);
  if (op == "<<" && shift) return a << b;
  if (op == ">>" && shift) return a >> b;
  if (op == "==") return a == b ? 1 : 0;
  if (op == "!=") return a != b ? 1 : 0;
  if (op == "<") return a < b ? 1 : 0;
  if (op == "<=") return a <= b ? 1 : 0;
  if (op == ">") return a > b ? 1 : 0;
  if (op == ">=") return a >= b ? 1 : 0;
  if (op == "&&") return a != 0 && b != 0 ? 1 : 0;
  if (op == "||") return a != 0 || b != 0 ? 1 : 0;
  return std::nullopt;
}

class Expression {
 public:
  Expression(std::string_view text,
             const std::function<std::optional<std::string>(std::string_view)>& value, int depth)
      : text_(text), value_(value), depth_(depth) {}

  Number whole() {
    const Number result = chosen();
    skip_blanks();
    return at_ == text_.size() ? result : std::nullopt;
  }

 private:
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  bool take(std::string_view what) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  // a ? b : c
  Number chosen() {
    const Number condition = binary(1);
    if (!take("?") || ++depth_ > kDeepest) return condition;
    const Number yes = chosen();
    if (!take(":")) return std::nullopt;
    const Number no = chosen();
    --depth_;
    if (!condition) return std::nullopt;
    return *condition != 0 ? yes : no;
  }
  const Operator* operator_here() {
    skip_blanks();
    for (const Operator& op : kOperators) {
      if (text_.substr(at_).starts_with(op.text)) return &op;
    }
    return nullptr;
  }
  Number binary(int lowest) {
    Number left = unary();
    for (const Operator* op = operator_here(); op != nullptr && op->precedence >= lowest;
         op = operator_here()) {
      at_ += op->text.size();
      const Number right = binary(op->precedence + 1);
      left = left && right ? applied(op->text, *left, *right) : std::nullopt;
    }
    return left;
  }
  Number unary() {
    if (++depth_ > kDeepest) return std::nullopt;
    Number result;
    if (take("-")) {
      const Number of = unary();
      if (of) result = applied("-", 0, *of);
    } else if (take("+")) {
      result = unary();
    } else if (take("!")) {
      const Number of = unary();
      if (of) result = *of == 0 ? 1 : 0;
    } else if (take("(")) {
      result = chosen();
      if (!take(")")) result.reset();
    } else {
      result = primary();
    }
    --depth_;
    return result;
  }
  Number primary() {
    skip_blanks();
    const std::size_t name = shell_name_length(text_.substr(at_));
    if (name > 0) {
      const auto text = value_(text_.substr(at_, name));
      at_ += name;
      // A variable's text may be an expression in turn.
      return text ? Expression(*text, value_, depth_).whole() : std::nullopt;
    }
    const std::size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
    const Number number = whole_number<std::int64_t>(text_.substr(at_, end - at_));
    at_ = end;
    return number;
  }

  std::string_view text_;
  const std::function<std::optional<std::string>(std::string_view)>& value_;
  int depth_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_sum(
    std::string_view text,
    const std::function<std::optional<std::string>(std::string_view name)>& value) {
  return Expression(text, value, 0).whole();
}

}  // namespace weir
