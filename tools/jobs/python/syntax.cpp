// Python's statements (The Python Language Reference, chapters 7 and 8).
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/python/syntax.hpp"

#include <array>
#include <utility>

#include "tools/jobs/python/expressions.hpp"

namespace weir {
namespace {

using Statement = PythonStatement;

constexpr int kDeepestBlock = 60;

class PythonParser {
 public:
  PythonParser(const std::string& source, const std::string& file) : at_(source, file) {}

  std::vector<Statement> file() {
    std::vector<Statement> all;
    while (at_.peek().kind != PythonToken::Kind::end) statement(all);
    return all;
  }

 private:
  // ":" and a block, or simple statements on the same line.
  std::vector<Statement> suite() {
    at_.expect_sign(":");
    std::vector<Statement> body;
    if (++depth_ > kDeepestBlock) at_.fail("blocks nested less deep");
    if (at_.peek().kind != PythonToken::Kind::newline) {
      simple_line(body);
    } else {
      at_.next();
      if (at_.peek().kind != PythonToken::Kind::indent) at_.fail("an indented block");
      at_.next();
      while (at_.peek().kind != PythonToken::Kind::dedent) {
        if (at_.peek().kind == PythonToken::Kind::end) break;
        statement(body);
      }
      at_.next();
    }
    --depth_;
    return body;
  }

  void statement(std::vector<Statement>& all) {
    if (at_.peek().kind == PythonToken::Kind::indent) at_.fail("no indent");
    if (at_.take_sign("@")) {  // a decorator
      at_.skip_line();
      at_.next();
      return;
    }
    at_.take_word("async");
    Statement made;
    made.line = at_.peek().line;
    if (at_.take_word("def")) {
      definition(made);
    } else if (at_.take_word("if")) {
      branch(made);
    } else if (at_.take_word("class")) {
      header();
      static_cast<void>(suite());  // defines nothing that is read
    } else if (at_.at_word("for") || at_.at_word("while") || at_.at_word("except")) {
      made.kind = Statement::Kind::repeat;
      at_.next();
      header();
      made.body = suite();
    } else if (at_.at_word("with") || at_.at_word("try") || at_.at_word("finally") ||
               at_.at_word("else")) {
      made.kind = Statement::Kind::block;
      at_.next();
      header();
      made.body = suite();
    } else {
      simple_line(all);
      return;
    }
    all.push_back(std::move(made));
  }

  // What stands between a loop's word and its colon; colons in brackets are not that one.
  void header() {
    for (int open = 0; open > 0 || !at_.at_sign(":"); at_.next()) {
      if (at_.at_line_end()) at_.fail(":");
      for (const char* sign : {"(", "[", "{"}) open += at_.at_sign(sign) ? 1 : 0;
      for (const char* sign : {")", "]", "}"}) open -= at_.at_sign(sign) ? 1 : 0;
    }
  }

  void branch(Statement& made) {
    made.kind = Statement::Kind::branch;
    made.value = at_.expression();
    made.body = suite();
    if (++depth_ > kDeepestBlock) at_.fail("fewer branches");
    if (at_.at_word("elif")) {
      Statement other;
      other.line = at_.peek().line;
      at_.next();
      branch(other);
      made.otherwise.push_back(std::move(other));
    } else if (at_.take_word("else")) {
      made.otherwise = suite();
    }
    --depth_;
  }

  void definition(Statement& made) {
    made.kind = Statement::Kind::define;
    made.word = at_.expect_name();
    at_.expect_sign("(");
    while (!at_.take_sign(")")) {
      Statement::Parameter parameter;
      const bool rest = at_.take_sign("*") || at_.take_sign("**") || at_.take_sign("/");
      if (at_.peek().kind == PythonToken::Kind::name) {
        parameter.name = at_.expect_name();
        if (at_.take_sign(":")) static_cast<void>(at_.expression());
        if (at_.take_sign("=")) {
          parameter.has_default = true;
          parameter.value = at_.expression();
        }
        if (!rest) made.parameters.push_back(std::move(parameter));
      } else if (!rest) {
        at_.fail("a parameter");
      }
      if (!at_.at_sign(")")) at_.expect_sign(",");
    }
    if (at_.take_sign("->")) made.value = at_.expression();
    made.body = suite();
  }

  void simple_line(std::vector<Statement>& all) {
    do {
      if (at_.at_line_end()) break;
      all.push_back(simple());
    } while (at_.take_sign(";"));
    if (!at_.at_line_end()) at_.fail("the end of the line");
    if (at_.peek().kind == PythonToken::Kind::newline) at_.next();
  }

  Statement simple() {
    Statement made;
    made.line = at_.peek().line;
    if (at_.take_word("return")) {
      made.kind = Statement::Kind::give_back;
      if (!at_.at_line_end()) made.value = at_.expressions();
      return made;
    }
    if (at_.take_word("from")) {
      made.kind = Statement::Kind::import;
      while (!at_.at_word("import") && !at_.at_line_end()) {
        made.word += at_.peek().text;
        at_.next();
      }
      for (; !at_.at_line_end(); at_.next()) {
        if (at_.peek().kind == PythonToken::Kind::name) made.words.push_back(at_.peek().text);
      }
      return made;
    }
    for (const char* word :
         {"pass", "break", "continue", "import", "assert", "raise", "del", "global", "nonlocal"}) {
      if (!at_.at_word(word)) continue;
      at_.skip_line();
      return made;
    }
    made.value = at_.expressions();
    assignment(made);
    return made;
  }

  void assignment(Statement& made) {
    made.kind = Statement::Kind::evaluate;
    if (at_.take_sign(":")) {  // an annotation: a name with a type, and with luck a value
      static_cast<void>(at_.expression());
      if (!at_.at_sign("=")) {
        made.kind = Statement::Kind::other;
        return;
      }
    }
    while (at_.take_sign("=")) {
      made.kind = Statement::Kind::assign;
      made.targets.push_back(std::move(made.value));
      made.value = at_.expressions();
    }
    constexpr std::array<std::string_view, 12> kChanges{
        "+=", "-=", "*=", "/=", "//=", "%=", "&=", "|=", "^=", ">>=", "<<=", "**="};
    for (const std::string_view sign : kChanges) {
      if (!at_.take_sign(sign)) continue;
      made.kind = Statement::Kind::change;
      made.word = sign;
      made.targets.push_back(std::move(made.value));
      made.value = at_.expressions();
    }
  }

  PythonCursor at_;
  int depth_ = 0;
};

}  // namespace

std::vector<PythonStatement> parse_python(const std::string& source, const std::string& file) {
  return PythonParser(source, file).file();
}

}  // namespace weir
