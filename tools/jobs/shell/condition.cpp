// Conditions of a script in three values: true, false, not known.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/condition.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "plan/text/cells.hpp"
#include "tools/jobs/shell/glob.hpp"

namespace weir {
namespace {

using Truth = std::optional<bool>;

constexpr int kDeepestCondition = 64;
constexpr std::array<std::string_view, 10> kComparisons{"=",   "==",  "!=",  "-eq", "-ne",
                                                        "-lt", "-le", "-gt", "-ge", "=~"};

Truth negated(Truth of) { return of ? Truth(!*of) : of; }
Truth both(Truth a, Truth b) {
  if (a == Truth(false) || b == Truth(false)) return false;
  return a && b ? Truth(true) : std::nullopt;
}
Truth either(Truth a, Truth b) { return negated(both(negated(a), negated(b))); }

class Condition {
 public:
  Condition(const std::vector<std::string>& raw, ShellVariables& variables, bool patterns)
      : raw_(raw), v_(variables), patterns_(patterns) {}

  Truth whole() {
    const Truth result = any();
    return at_ == raw_.size() ? result : std::nullopt;
  }

 private:
  bool take(std::string_view a, std::string_view b) {
    if (at_ == raw_.size() || (raw_[at_] != a && raw_[at_] != b)) return false;
    ++at_;
    return true;
  }
  Truth any() {
    Truth result = all();
    while (take("||", "-o")) result = either(result, all());
    return result;
  }
  Truth all() {
    Truth result = one();
    while (take("&&", "-a")) result = both(result, one());
    return result;
  }
  Truth one() {
    if (at_ == raw_.size() || ++depth_ > kDeepestCondition) return std::nullopt;
    Truth result;
    if (take("!", "!")) {
      result = negated(one());
    } else if (take("(", "\\(")) {
      result = any();
      if (!take(")", "\\)")) result.reset();
    } else {
      result = simple();
    }
    --depth_;
    return result;
  }
  Truth simple() {
    if (at_ + 2 < raw_.size() &&
        std::ranges::find(kComparisons, raw_[at_ + 1]) != kComparisons.end()) {
      at_ += 3;
      return compared(raw_[at_ - 3], raw_[at_ - 2], raw_[at_ - 1]);
    }
    const std::string& first = raw_[at_++];
    const bool unary = first.size() == 2 && first[0] == '-' && at_ < raw_.size();
    const ShellText text = v_.text(unary ? raw_[at_++] : first);
    const bool about_text = !unary || first == "-n" || first == "-z";
    // What Slurm sets is not known, and not empty.
    const bool by_slurm = text.text.starts_with("${SLURM_") && text.text.ends_with("}") &&
                          v_.find(text.text.substr(2, text.text.size() - 3)) != nullptr;
    if (about_text && by_slurm) return !unary || first == "-n";
    if (!about_text || !text.known) return std::nullopt;
    return text.text.empty() == (unary && first == "-z");
  }
  Truth compared(const std::string& left, const std::string& op, const std::string& right) {
    const ShellText a = v_.text(left), b = v_.text(right);
    if (!a.known || !b.known || op == "=~") return std::nullopt;
    if (op == "=" || op == "==" || op == "!=") {
      const bool quoted = right.find_first_of("\"'") != std::string::npos;
      const bool same =
          patterns_ && !quoted ? Glob(b.text, v_.budget()).matches(a.text) : a.text == b.text;
      return same == (op != "!=");
    }
    const auto x = whole_number<std::int64_t>(a.text), y = whole_number<std::int64_t>(b.text);
    if (!x || !y) return std::nullopt;
    if (op == "-eq") return *x == *y;
    if (op == "-ne") return *x != *y;
    if (op == "-lt") return *x < *y;
    if (op == "-le") return *x <= *y;
    return op == "-gt" ? *x > *y : *x >= *y;
  }

  const std::vector<std::string>& raw_;
  ShellVariables& v_;
  bool patterns_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<bool> shell_condition(const std::vector<std::string>& raw, ShellVariables& variables,
                                    bool patterns) {
  return Condition(raw, variables, patterns).whole();
}

}  // namespace weir
