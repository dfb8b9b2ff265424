// Python's lexical rules (The Python Language Reference, chapter 2), as far as files of settings
// need them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/python/tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::size_t kLongestSource = std::size_t{4} << 20;

// Longer signs before those that they begin with.
constexpr std::array<std::string_view, 24> kSigns{
    "**=", "//=", ">>=", "<<=", "...", "->", ":=", "**", "//", ">>", "<<", "==",
    "!=",  "<=",  ">=",  "+=",  "-=",  "*=", "/=", "%=", "&=", "|=", "^=", "@="};

bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_figure(char c) { return c >= '0' && c <= '9'; }

class PythonScanner {
 public:
  PythonScanner(const std::string& source, const std::string& file)
      : source_(source), file_(file) {}

  std::vector<PythonToken> all() {
    if (source_.size() > kLongestSource) fail("is longer than 4 MiB");
    if (source_.find('\0') != std::string::npos) fail("no Python: has a zero byte");
    while (at_ < source_.size()) {
      if (line_begins_ && depth_ == 0) {
        measure_indent();
      } else {
        next();
      }
    }
    if (depth_ > 0) fail("no Python: a bracket is never closed");
    if (!tokens_.empty() && tokens_.back().kind != PythonToken::Kind::newline)
      add(PythonToken::Kind::newline, "", at_);
    for (; indents_.size() > 1; indents_.pop_back()) add(PythonToken::Kind::dedent, "", at_);
    add(PythonToken::Kind::end, "", at_);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(file_, fmt::format("line {}", line_), message);
  }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  void add(PythonToken::Kind kind, std::string text, std::size_t begin) {
    tokens_.push_back({kind, std::move(text), line_, begin, at_});
  }

  // Blank lines and comments have no indent.
  void measure_indent() {
    std::size_t columns = 0;
    for (; peek() == ' ' || peek() == '\t' || peek() == '\f'; ++at_)
      columns = peek() == '\t' ? (columns / 8 + 1) * 8 : columns + 1;
    if (peek() == '\n' || peek() == '\r' || peek() == '#' || at_ == source_.size()) {
      skip_line();
      return;
    }
    line_begins_ = false;
    if (columns > indents_.back()) {
      indents_.push_back(columns);
      add(PythonToken::Kind::indent, "", at_);
    }
    for (; columns < indents_.back(); indents_.pop_back()) add(PythonToken::Kind::dedent, "", at_);
    if (columns != indents_.back()) fail("no Python: this indent is no block's");
  }

  void skip_line() {
    while (at_ < source_.size() && source_[at_] != '\n') ++at_;
    if (at_ < source_.size()) {
      ++at_;
      ++line_;
    }
  }

  void next() {
    const char c = peek();
    if (c == '\n') {
      // Within brackets a line goes on.
      if (depth_ == 0) {
        add(PythonToken::Kind::newline, "", at_);
        line_begins_ = true;
      }
      ++at_;
      ++line_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
      ++at_;
    } else if (c == '#') {
      while (at_ < source_.size() && source_[at_] != '\n') ++at_;
    } else if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      skip_line();
    } else if (const std::size_t prefix = string_prefix(); prefix != std::string::npos) {
      string(prefix);
    } else if (begins_name(c)) {
      word();
    } else if (is_figure(c) || (c == '.' && is_figure(peek(1)))) {
      number();
    } else {
      sign();
    }
  }

  // Letters before a string's quotes; npos where no string begins.
  [[nodiscard]] std::size_t string_prefix() const {
    std::size_t n = 0;
    while (n < 3 && peek(n) != '\0' &&
           std::string_view("rRbBuUfFtT").find(peek(n)) != std::string_view::npos)
      ++n;
    return n < 3 && (peek(n) == '"' || peek(n) == '\'') ? n : std::string::npos;
  }

  void string(std::size_t prefix) {
    const std::size_t begin = at_;
    const int line = line_;
    bool raw = false, opaque = false;
    for (std::size_t i = 0; i < prefix; ++i) {
      const char c = peek(i);
      raw = raw || c == 'r' || c == 'R';
      opaque = opaque || std::string_view("bBfFtT").find(c) != std::string_view::npos;
    }
    at_ += prefix;
    const char quote = peek();
    const bool triple = peek(1) == quote && peek(2) == quote;
    at_ += triple ? 3 : 1;
    std::string text;
    for (;;) {
      if (at_ >= source_.size() || (!triple && peek() == '\n')) fail("no Python: a string is open");
      if (peek() == quote && (!triple || (peek(1) == quote && peek(2) == quote))) break;
      if (peek() == '\n') ++line_;
      if (peek() == '\\' && at_ + 1 < source_.size()) {
        text += escape(raw);
      } else {
        text += source_[at_++];
      }
    }
    at_ += triple ? 3 : 1;
    tokens_.push_back({opaque ? PythonToken::Kind::opaque : PythonToken::Kind::text,
                       std::move(text), line, begin, at_});
  }

  // What a backslash and the character behind it stand for; other escapes stay as they are.
  std::string escape(bool raw) {
    const char c = source_[at_ + 1];
    at_ += 2;
    if (c == '\n') ++line_;
    if (raw) return std::string{'\\', c};
    switch (c) {
      case '\n':
        return "";
      case 'n':
        return "\n";
      case 't':
        return "\t";
      case '\\':
      case '\'':
      case '"':
        return std::string(1, c);
      default:
        return std::string{'\\', c};
    }
  }

  void word() {
    const std::size_t begin = at_;
    while (begins_name(peek()) || is_figure(peek())) ++at_;
    add(PythonToken::Kind::name, source_.substr(begin, at_ - begin), begin);
  }

  void number() {
    const std::size_t begin = at_;
    const bool hexadecimal = peek() == '0' && (peek(1) == 'x' || peek(1) == 'X');
    while (begins_name(peek()) || is_figure(peek()) || peek() == '.' ||
           (!hexadecimal && (peek() == '-' || peek() == '+') &&
            (source_[at_ - 1] == 'e' || source_[at_ - 1] == 'E'))) {
      ++at_;
    }
    std::string digits = source_.substr(begin, at_ - begin);
    std::erase(digits, '_');
    add(PythonToken::Kind::number, std::move(digits), begin);
  }

  void sign() {
    const std::size_t begin = at_;
    const auto long_one = std::ranges::find_if(kSigns, [&](std::string_view sign) {
      return std::string_view(source_).substr(at_).starts_with(sign);
    });
    at_ += long_one == kSigns.end() ? 1 : long_one->size();
    std::string text = source_.substr(begin, at_ - begin);
    if (text == "(" || text == "[" || text == "{") ++depth_;
    if (text == ")" || text == "]" || text == "}") --depth_;
    constexpr std::string_view kSingle = "()[]{}<>=+-*/%@&|^~,:.;";
    if (depth_ < 0 || (text.size() == 1 && kSingle.find(text[0]) == kSingle.npos))
      fail(fmt::format("no Python: unexpected {:?}", text));
    add(PythonToken::Kind::sign, std::move(text), begin);
  }

  const std::string& source_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1, depth_ = 0;
  bool line_begins_ = true;
  std::vector<std::size_t> indents_{0};
  std::vector<PythonToken> tokens_;
};

}  // namespace

std::vector<PythonToken> python_tokens(const std::string& source, const std::string& file) {
  return PythonScanner(source, file).all();
}

}  // namespace weir
