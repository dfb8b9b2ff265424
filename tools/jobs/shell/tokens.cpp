// Shell text as tokens.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::string_view kBlank = " \t\r";
constexpr std::string_view kEndsWord = " \t\r\n;&|()<>";
// After these a command begins.
constexpr std::array<std::string_view, 10> kOpeners{"if",    "then", "elif", "else", "while",
                                                    "until", "do",   "{",    "!",    "time"};

bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<ShellToken> tokens() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (is_one_of(c, kBlank)) {
        ++at_;
      } else if (continues()) {
        skip_line_end();
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '<' || c == '>' || (c == '&' && next() == '>')) {
        redirection("");
      } else if (is_one_of(c, "\n;&|()")) {
        operation();
      } else {
        word();
      }
    }
    return std::move(tokens_);
  }

 private:
  char next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\0'; }
  // A backslash at the end of a line: the command goes on in the next.
  bool continues() const {
    const std::string_view rest = text_.substr(at_, 3);
    return rest.starts_with("\\\n") || rest.starts_with("\\\r\n");
  }
  void skip_line_end() {
    at_ = text_.find('\n', at_) + 1;
    ++line_;
  }
  void add(ShellToken token) {
    token.first = first_;
    const bool opens = token.kind == ShellKind::word && first_ &&
                       std::ranges::find(kOpeners, token.text) != kOpeners.end();
    first_ = opens || token.kind == ShellKind::operation;
    tokens_.push_back(std::move(token));
  }
  void operation() {
    const char c = text_[at_];
    const bool counts = !tokens_.empty() && tokens_.back().first && tokens_.back().text == "for";
    if (c == '(' && next() == '(' && (first_ || counts)) return sum();
    std::string text(1, c);
    if (c != '\n' && c != '(' && c != ')' && next() == c) text += c;
    if (c == '|' && next() == '&') ++at_;
    at_ += text.size();
    add({.kind = ShellKind::operation, .text = text, .line = line_});
    if (c != '\n') return;
    ++line_;
    skip_here_document();
  }
  void sum() {
    const std::size_t end = text_.find("))", at_);
    if (end == std::string_view::npos) fail("a bracket is not closed", line_);
    ShellToken token{.kind = ShellKind::sum, .line = line_};
    token.text = text_.substr(at_ + 2, end - at_ - 2);
    pass(end + 2);
    add(std::move(token));
  }
  // Where output and input go. "<<WORD" is data up to WORD alone on a line; "<<<" is a word's text.
  void redirection(std::string token) {
    if (text_.substr(at_, 3) == "<<<") {
      at_ += 3;
      return;
    }
    if (text_.substr(at_, 2) == "<<") return here_document();
    if (next() == '(') {  // <(command): a file's name that is not known
      const std::size_t end = shell_end_of(text_, at_);
      if (end == std::string_view::npos) fail("a bracket is not closed", line_);
      const std::string_view whole = text_.substr(at_, end - at_);
      const int line = line_;
      pass(end);
      return add({.text = std::string(whole), .line = line});
    }
    while (at_ < text_.size() && is_one_of(text_[at_], "<>&|")) token += text_[at_++];
    while (token.ends_with('&') && at_ < text_.size() && is_one_of(text_[at_], "0123456789-"))
      token += text_[at_++];
    add({.text = std::move(token), .line = line_});
  }
  void here_document() {
    at_ += 2;
    bool quoted = false;
    for (; at_ < text_.size() && is_one_of(text_[at_], "-'\" "); ++at_)
      quoted = quoted || is_one_of(text_[at_], "'\"");
    const std::size_t length = shell_name_length(text_.substr(at_));
    here_end_ = text_.substr(at_, length);
    at_ += length;
    if (at_ < text_.size() && is_one_of(text_[at_], "'\"")) ++at_;
    here_ = tokens_.size();
    ShellToken token{.kind = ShellKind::here, .line = line_};
    if (quoted) token.elements.emplace_back();
    add(std::move(token));
  }
  void skip_here_document() {
    while (!here_end_.empty() && at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      while (!line.empty() && is_one_of(line.front(), kBlank)) line.remove_prefix(1);
      while (!line.empty() && is_one_of(line.back(), kBlank)) line.remove_suffix(1);
      const bool ends = line == here_end_;
      if (!ends) tokens_[here_].text += std::string(text_.substr(at_, end - at_)) + "\n";
      if (ends) here_end_ = {};
      at_ = std::min(end + 1, text_.size());
      ++line_;
    }
    here_end_ = {};
  }
  void word() {
    const int line = line_;
    std::string raw = raw_word(kEndsWord);
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if ((c == '<' || c == '>') && all_digits(raw)) return redirection(std::move(raw));
    if (raw == "[[" && first_) return condition(line);
    if (c == '(' && raw.ends_with('=')) {
      const std::size_t name = shell_name_length(raw);
      if (name > 0 && (name + 1 == raw.size() || raw.compare(name, 2, "+=") == 0))
        return array(std::move(raw), line);
    }
    add({.text = std::move(raw), .line = line});
  }
  std::string raw_word(std::string_view ends) {
    std::string raw;
    while (at_ < text_.size() && !is_one_of(text_[at_], ends)) {
      const char c = text_[at_];
      if (continues()) break;
      std::size_t end = at_ + 1;
      if (c == '\\') {
        end = std::min(at_ + 2, text_.size());
      } else if (is_one_of(c, "'\"`$")) {
        end = shell_end_of(text_, at_);
        if (end == std::string_view::npos)
          fail(c == '$' ? "a bracket is not closed" : "a quote is not closed", line_);
      }
      raw += text_.substr(at_, end - at_);
      pass(end);
    }
    return raw;
  }
  void array(std::string name, int line) {
    ShellToken token{.kind = ShellKind::array, .text = std::move(name), .line = line};
    ++at_;
    elements(token, ")", " \t\r\n)", line);
    ++at_;
    add(std::move(token));
  }
  void condition(int line) {
    ShellToken token{.kind = ShellKind::condition, .line = line};
    elements(token, "", " \t\r\n", line);
    add(std::move(token));
  }
  // Words up to `close`, or to "]]" where there is none.
  void elements(ShellToken& token, std::string_view close, std::string_view ends, int line) {
    for (;;) {
      if (at_ >= text_.size()) fail("a bracket is not closed", line);
      const char c = text_[at_];
      if (is_one_of(c, close)) return;
      if (c == '\n') ++line_;
      if (is_one_of(c, " \t\r\n")) {
        ++at_;
      } else if (continues()) {
        skip_line_end();
      } else if (c == '#' && !close.empty()) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        token.elements.push_back(raw_word(ends));
        if (close.empty() && token.elements.back().starts_with("]]")) {
          // "]];": what follows the brackets is given back.
          at_ -= token.elements.back().size() - 2;
          token.elements.pop_back();
          return;
        }
      }
    }
  }
  void pass(std::size_t end) {
    const auto of = text_.substr(at_, end - at_);
    line_ += static_cast<int>(std::ranges::count(of, '\n'));
    at_ = end;
  }
  [[noreturn]] void fail(const char* message, int line) const {
    throw InputError(file_, fmt::format("line {}", line), message);
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool first_ = true;
  std::string_view here_end_;
  std::size_t here_ = 0;  // the token of the here-document whose text comes next
  std::vector<ShellToken> tokens_;
};

constexpr int kDeepestBracket = 64;

std::size_t end_of(std::string_view text, std::size_t at, int depth);

// Behind the bracket that closes what is open at `at`.
std::size_t end_of_bracket(std::string_view text, std::size_t at, char open, char close,
                           int depth) {
  int brackets = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '\\') {
      at += 2;
    } else if (is_one_of(c, "'\"`") || (c == '$' && at + 1 < text.size())) {
      at = end_of(text, at, depth + 1);
      if (at == std::string_view::npos) return at;
    } else {
      ++at;
      if (c == open) ++brackets;
      if (c == close && --brackets == 0) return at;
    }
  }
  return std::string_view::npos;
}

std::size_t end_of(std::string_view text, std::size_t at, int depth) {
  if (depth > kDeepestBracket) return std::string_view::npos;
  const char c = text[at];
  const char next = at + 1 < text.size() ? text[at + 1] : '\0';
  if (c == '$' && next == '[') return end_of_bracket(text, at + 1, '[', ']', depth);
  if (c == '$' && next == '{') return end_of_bracket(text, at + 1, '{', '}', depth);
  if (is_one_of(c, "$<>") && next == '(') return end_of_bracket(text, at + 1, '(', ')', depth);
  if (c == '$') return at + 1;
  if (c == '\'') {
    const std::size_t end = text.find('\'', at + 1);
    return end == std::string_view::npos ? end : end + 1;
  }
  for (++at; at < text.size() && text[at] != c;) {
    if (text[at] == '\\') {
      at += 2;
    } else if (c == '"' && (text[at] == '$' || text[at] == '`')) {
      at = end_of(text, at, depth + 1);
      if (at == std::string_view::npos) return at;
    } else {
      ++at;
    }
  }
  return at < text.size() ? at + 1 : std::string_view::npos;
}

bool name_character(char c, bool first) {
  return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         (!first && c >= '0' && c <= '9');
}

}  // namespace

std::vector<ShellToken> shell_tokens(std::string_view text, const std::string& file) {
  return Lexer(text, file).tokens();
}

std::size_t shell_end_of(std::string_view text, std::size_t at) {
  const std::size_t end = end_of(text, at, 0);
  return end == std::string_view::npos ? end : std::min(end, text.size());
}

std::size_t shell_name_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && name_character(text[length], length == 0)) ++length;
  return length;
}

}  // namespace weir
