// Text from files and from people as other languages take it. A name may hold anything; each
// language has one function here, and nothing else writes a name into it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace weir {

// One word of a POSIX shell: bare where it is plain (letters, digits and @%+=:,./_-), else between
// single quotes, within which a shell reads nothing.
[[nodiscard]] std::string shell_quoted(std::string_view text);

// One cell of a CSV (RFC 4180): bare where it is plain, else between double quotes.
[[nodiscard]] std::string csv_quoted(std::string_view text);

// As a terminal shows it: a control character as \x1b or \u009b, what breaks a line or turns the
// direction of writing (U+2028 to U+202E, U+2066 to U+2069) as \u202e, a byte that is no UTF-8 as
// \xff. Lines stay lines.
[[nodiscard]] std::string printable(std::string_view text);

// The same as one line of a table or a headline has it: a new line as \x0a, too.
[[nodiscard]] std::string printable_in_line(std::string_view text);

// A message in one line, with the drawing that it may end in: the lines of a grid or of an order
// begin with two spaces or "rank ", those of a cycle say what waits for what. Any other new line
// was in a name that the message quotes, and is shown as \x0a.
[[nodiscard]] std::string in_one_line(std::string_view message);

// The same text, the middle of a first line of more than 1,000 bytes left out: what a message
// quotes may be a name of any length.
[[nodiscard]] std::string shortened(std::string_view text);

}  // namespace weir
