// What a terminal is shown of any text, and what a message is in one line.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/quote.hpp"

#include <gtest/gtest.h>

namespace weir::quote_test {
namespace {

TEST(Printable, SteersNoTerminal) {
  EXPECT_EQ(printable("a\x1b[2Jb\x07\x7f"), R"(a\x1b[2Jb\x07\x7f)");
  EXPECT_EQ(printable("\u0085\u009b"), R"(\u0085\u009b)");
  EXPECT_EQ(printable("caf\xe9 café"), R"(caf\xe9 café)");
  // Ends of lines, and both kinds of turns; their neighbours are letters and spaces.
  EXPECT_EQ(printable("\u2028\u202e\u2066\u2069"), R"(\u2028\u202e\u2066\u2069)");
  EXPECT_EQ(printable("\u2027\u202f\u2065\u206a漢"), "\u2027\u202f\u2065\u206a漢");
}

TEST(InOneLine, KeepsDrawingsAndNoOtherLine) {
  EXPECT_EQ(in_one_line(""), "");
  EXPECT_EQ(in_one_line("f: k: expected 3"), "f: k: expected 3");
  EXPECT_EQ(in_one_line("unknown \"a\nweir: done\""), R"(unknown "a\x0aweir: done")");
  EXPECT_EQ(in_one_line("f\n\n"), R"(f\x0a\x0a)");
  const std::string drawn = "stuck:\n    step   0\n  rank 0 0F0\nrank 100 0B0\n0F0 waits for 0B0";
  EXPECT_EQ(in_one_line(drawn), drawn);
}

}  // namespace
}  // namespace weir::quote_test
