// Python's tokens while expressions are made of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tools/jobs/python/tokens.hpp"
#include "tools/jobs/python/tree.hpp"

namespace weir {

class PythonCursor {
 public:
  // Both must outlive the cursor.
  PythonCursor(const std::string& source, const std::string& file);

  [[nodiscard]] const PythonToken& peek() const { return tokens_[at_]; }
  [[nodiscard]] bool at_sign(std::string_view sign) const;
  [[nodiscard]] bool at_word(std::string_view word) const;
  [[nodiscard]] bool at_line_end() const;
  void next();
  bool take_sign(std::string_view sign);  // whether it was there
  bool take_word(std::string_view word);
  void expect_sign(std::string_view sign);
  std::string expect_name();
  [[noreturn]] void fail(const std::string& expected) const;

  // a, b = 1, 2 has two of them.
  PythonExpression expressions();
  PythonExpression expression();
  // On to the end of the line, or past the bracket that closes those that are open.
  void skip_line();

 private:
  PythonExpression ternary();
  PythonExpression operation(std::size_t level);
  PythonExpression prefixed();
  PythonExpression power();
  PythonExpression atom();
  PythonExpression trailers(PythonExpression first, std::size_t begin);
  PythonExpression call(PythonExpression callee);
  PythonExpression subscript(PythonExpression base);
  PythonExpression bracketed(PythonExpression::Kind kind, std::string_view close);
  PythonExpression comprehension(PythonExpression each);
  PythonExpression dictionary();
  PythonExpression opaque_until(std::string_view close);  // and past it
  [[nodiscard]] std::string source_from(std::size_t begin) const;
  void deeper();
  void one_more();

  const std::string& source_;
  const std::string& file_;
  std::vector<PythonToken> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0, operators_ = 0;
};

}  // namespace weir
