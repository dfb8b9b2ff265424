// Python's expressions by their precedence (The Python Language Reference, chapter 6).
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/python/expressions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plan/words/error.hpp"

namespace weir {
namespace {

using Kind = PythonExpression::Kind;

constexpr int kDeepestExpression = 100;
constexpr int kMostOperators = 1000;  // of one expression: each is a level of the tree
constexpr std::size_t kLongestShown = 60;

// Weakest first; "not" stands between and and comparisons.
constexpr std::array<std::array<std::string_view, 6>, 6> kSignLevels{
    {{"<", ">", "==", ">=", "<=", "!="}, {"|"}, {"^"}, {"&"}, {"<<", ">>"}, {"+", "-"}}};
constexpr std::array<std::string_view, 5> kProducts{"*", "/", "//", "%", "@"};

PythonExpression of_kind(Kind kind, std::string word = {}) {
  PythonExpression made;
  made.kind = kind;
  made.word = std::move(word);
  return made;
}

PythonExpression joined(std::string sign, PythonExpression left, PythonExpression right) {
  PythonExpression made = of_kind(Kind::binary, std::move(sign));
  made.parts.push_back(std::move(left));
  made.parts.push_back(std::move(right));
  return made;
}

}  // namespace

PythonCursor::PythonCursor(const std::string& source, const std::string& file)
    : source_(source), file_(file), tokens_(python_tokens(source, file)) {}

bool PythonCursor::at_sign(std::string_view sign) const {
  return peek().kind == PythonToken::Kind::sign && peek().text == sign;
}
bool PythonCursor::at_word(std::string_view word) const {
  return peek().kind == PythonToken::Kind::name && peek().text == word;
}
bool PythonCursor::at_line_end() const {
  return peek().kind == PythonToken::Kind::newline || peek().kind == PythonToken::Kind::end;
}
void PythonCursor::next() {
  if (peek().kind != PythonToken::Kind::end) ++at_;
}
bool PythonCursor::take_sign(std::string_view sign) {
  const bool there = at_sign(sign);
  if (there) next();
  return there;
}
bool PythonCursor::take_word(std::string_view word) {
  const bool there = at_word(word);
  if (there) next();
  return there;
}
void PythonCursor::expect_sign(std::string_view sign) {
  if (!take_sign(sign)) fail(std::string(sign));
}
std::string PythonCursor::expect_name() {
  if (peek().kind != PythonToken::Kind::name) fail("a name");
  std::string name = peek().text;
  next();
  return name;
}
void PythonCursor::fail(const std::string& expected) const {
  throw InputError(file_, fmt::format("line {}", peek().line),
                   fmt::format("no Python that is understood: expected {}", expected));
}

void PythonCursor::deeper() {
  if (++depth_ > kDeepestExpression) fail("brackets nested less deep");
}

void PythonCursor::one_more() {
  if (++operators_ > kMostOperators) fail("an expression of fewer operators");
}

// The text from there to where the cursor is, its white space made one blank.
std::string PythonCursor::source_from(std::size_t begin) const {
  const std::size_t end = at_ > 0 ? tokens_[at_ - 1].end : begin;
  std::string text;
  for (const char c : std::string_view(source_).substr(begin, end > begin ? end - begin : 0)) {
    const bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (blank && (text.empty() || text.back() == ' ' || text.back() == '(')) continue;
    text += blank ? ' ' : c;
    if (text.size() > kLongestShown) return text.substr(0, kLongestShown - 3) + "...";
  }
  return text;
}

void PythonCursor::skip_line() {
  while (!at_line_end()) next();
}

PythonExpression PythonCursor::expressions() {
  const std::size_t begin = peek().begin;
  PythonExpression first = expression();
  if (!at_sign(",")) return first;
  PythonExpression all = of_kind(Kind::tuple);
  all.parts.push_back(std::move(first));
  while (take_sign(",")) {
    if (at_line_end() || at_sign("=") || at_sign(")")) break;
    all.parts.push_back(expression());
  }
  all.source = source_from(begin);
  return all;
}

PythonExpression PythonCursor::expression() {
  if (depth_ == 0) operators_ = 0;
  deeper();
  const std::size_t begin = peek().begin;
  PythonExpression made;
  if (take_sign("*") || take_sign("**") || take_word("await") || take_word("yield")) {
    take_word("from");
    if (!at_line_end() && !at_sign(")")) static_cast<void>(expression());
  } else if (take_word("lambda")) {
    // Its parameters hold no bracket or colon but those of their defaults, which are rare.
    while (!at_sign(":") && !at_line_end()) next();
    expect_sign(":");
    static_cast<void>(expression());
  } else {
    made = ternary();
    if (take_sign(":=")) {
      static_cast<void>(expression());
      made = PythonExpression{};
    }
  }
  made.source = source_from(begin);
  --depth_;
  return made;
}

PythonExpression PythonCursor::ternary() {
  PythonExpression made = operation(0);
  if (!take_word("if")) return made;
  PythonExpression chosen = of_kind(Kind::conditional);
  chosen.parts.push_back(std::move(made));
  chosen.parts.push_back(operation(0));
  if (!take_word("else")) fail("else");
  chosen.parts.push_back(expression());
  return chosen;
}

// Level 0 is or, 1 and, 2 not, 3 comparisons, up to sums at 8 and products at 9.
PythonExpression PythonCursor::operation(std::size_t level) {
  constexpr std::size_t kNot = 2, kCompare = 3, kProduct = 9;
  if (level == kNot) {
    const std::size_t begin = peek().begin;
    if (!take_word("not")) return operation(kCompare);
    PythonExpression denied = of_kind(Kind::unary, "not");
    deeper();
    denied.parts.push_back(operation(kNot));
    --depth_;
    denied.source = source_from(begin);
    return denied;
  }
  const std::size_t begin = peek().begin;
  PythonExpression left = level == kProduct ? prefixed() : operation(level + 1);
  for (;;) {
    std::string sign;
    if (level < kNot) {
      if (at_word(level == 0 ? "or" : "and")) sign = peek().text;
    } else if (level == kProduct) {
      if (peek().kind == PythonToken::Kind::sign &&
          std::ranges::find(kProducts, peek().text) != kProducts.end())
        sign = peek().text;
    } else if (peek().kind == PythonToken::Kind::sign) {
      const auto& signs = kSignLevels[level - kCompare];
      if (std::ranges::find(signs, peek().text) != signs.end()) sign = peek().text;
    } else if (level == kCompare && (at_word("in") || at_word("is") || at_word("not"))) {
      sign = peek().text;
    }
    if (sign.empty()) return left;
    one_more();
    next();
    if (sign == "not") {
      if (!take_word("in")) fail("in");
      sign = "not in";
    }
    if (sign == "is" && take_word("not")) sign = "is not";
    left = joined(std::move(sign), std::move(left),
                  level == kProduct ? prefixed() : operation(level + 1));
    left.source = source_from(begin);
  }
}

PythonExpression PythonCursor::prefixed() {
  const std::size_t begin = peek().begin;
  for (const std::string_view sign : {"-", "+", "~"}) {
    if (!take_sign(sign)) continue;
    PythonExpression made = of_kind(Kind::unary, std::string(sign));
    deeper();
    made.parts.push_back(prefixed());
    --depth_;
    made.source = source_from(begin);
    return made;
  }
  return power();
}

PythonExpression PythonCursor::power() {
  const std::size_t begin = peek().begin;
  PythonExpression base = trailers(atom(), begin);
  if (!take_sign("**")) return base;
  deeper();
  base = joined("**", std::move(base), prefixed());
  --depth_;
  base.source = source_from(begin);
  return base;
}

PythonExpression PythonCursor::atom() {
  const PythonToken token = peek();
  using Token = PythonToken::Kind;
  PythonExpression made;
  if (token.kind == Token::number) {
    made = of_kind(Kind::number, token.text);
    next();
  } else if (token.kind == Token::text || token.kind == Token::opaque) {
    // Strings beside each other are one.
    made.kind = Kind::text;
    for (; peek().kind == Token::text || peek().kind == Token::opaque; next()) {
      if (peek().kind == Token::opaque) made.kind = Kind::other;
      made.word += peek().text;
    }
  } else if (token.kind == Token::name) {
    const bool truth = token.text == "True" || token.text == "False";
    made = of_kind(truth                  ? Kind::truth
                   : token.text == "None" ? Kind::none
                                          : Kind::name,
                   token.text);
    next();
  } else if (take_sign("(")) {
    made = bracketed(Kind::tuple, ")");
  } else if (take_sign("[")) {
    made = bracketed(Kind::list, "]");
  } else if (take_sign("{")) {
    made = dictionary();
  } else if (!take_sign("...")) {
    fail("an expression");
  }
  made.source = source_from(token.begin);
  return made;
}

PythonExpression PythonCursor::trailers(PythonExpression first, std::size_t begin) {
  for (;;) {
    if (take_sign(".")) {
      PythonExpression made = of_kind(Kind::attribute, expect_name());
      made.parts.push_back(std::move(first));
      first = std::move(made);
    } else if (take_sign("(")) {
      first = call(std::move(first));
    } else if (take_sign("[")) {
      first = subscript(std::move(first));
    } else {
      return first;
    }
    one_more();
    first.source = source_from(begin);
  }
}

PythonExpression PythonCursor::call(PythonExpression callee) {
  PythonExpression made = of_kind(Kind::call);
  made.parts.push_back(std::move(callee));
  while (!take_sign(")")) {
    std::string keyword;
    if (peek().kind == PythonToken::Kind::name &&
        tokens_[at_ + 1].kind == PythonToken::Kind::sign && tokens_[at_ + 1].text == "=") {
      keyword = expect_name();
      next();
    } else if (at_sign("**") || at_sign("*")) {
      keyword = peek().text;
      next();
    }
    made.words.push_back(std::move(keyword));
    made.parts.push_back(expression());
    if (at_word("for") || at_word("async")) {
      made.parts.back() = opaque_until(")");
      return made;
    }
    if (!at_sign(")")) expect_sign(",");
  }
  return made;
}

PythonExpression PythonCursor::subscript(PythonExpression base) {
  PythonExpression made = of_kind(Kind::subscript);
  made.parts.push_back(std::move(base));
  if (at_sign(":")) return opaque_until("]");
  made.parts.push_back(expressions());
  if (!take_sign("]")) return opaque_until("]");
  return made;
}

// ( or [ has been taken. One expression in round brackets is itself.
PythonExpression PythonCursor::bracketed(Kind kind, std::string_view close) {
  PythonExpression made = of_kind(kind);
  bool comma = false;
  while (!take_sign(close)) {
    made.parts.push_back(expression());
    if (at_word("for") || at_word("async")) {
      if (kind == Kind::list && made.parts.size() == 1)
        return comprehension(std::move(made.parts.front()));
      return opaque_until(close);
    }
    if (at_sign(close)) continue;
    expect_sign(",");
    comma = true;
  }
  if (kind == Kind::tuple && made.parts.size() == 1 && !comma) {
    PythonExpression inner = std::move(made.parts.front());
    return inner;
  }
  return made;
}

// Of one name over one list, all of it: `[EACH for NAME in LIST]`.
PythonExpression PythonCursor::comprehension(PythonExpression each) {
  if (!take_word("for") || peek().kind != PythonToken::Kind::name) return opaque_until("]");
  PythonExpression made = of_kind(Kind::comprehension, expect_name());
  if (!take_word("in")) return opaque_until("]");
  made.parts.push_back(std::move(each));
  made.parts.push_back(operation(0));
  return take_sign("]") ? std::move(made) : opaque_until("]");
}

PythonExpression PythonCursor::dictionary() {
  PythonExpression made = of_kind(Kind::dict);
  while (!take_sign("}")) {
    if (take_sign("**")) {
      made.parts.emplace_back();
    } else {
      made.parts.push_back(expression());
      if (!take_sign(":")) return opaque_until("}");  // a set
    }
    made.parts.push_back(expression());
    if (at_word("for") || at_word("async")) return opaque_until("}");
    if (!at_sign("}")) expect_sign(",");
  }
  return made;
}

PythonExpression PythonCursor::opaque_until(std::string_view close) {
  for (int open = 0; open > 0 || !at_sign(close); next()) {
    if (peek().kind == PythonToken::Kind::end) fail(std::string(close));
    if (at_sign("(") || at_sign("[") || at_sign("{")) ++open;
    if (at_sign(")") || at_sign("]") || at_sign("}")) --open;
  }
  next();
  return {};
}

}  // namespace weir
