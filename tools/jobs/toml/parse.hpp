// toml++ as this tree takes it: for the files that read and change TOML, and for no other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

// What toml++ 3.3 takes for granted of a text does not hold of every text ("[/job]"). With NDEBUG
// that is undefined behaviour, without it the end of the process; here it is an exception.
namespace weir {
struct TomlFault : std::logic_error {
  using std::logic_error::logic_error;
};
[[noreturn]] inline void refuse_toml(const char* assumption) { throw TomlFault(assumption); }
}  // namespace weir
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) ((expr) ? void() : weir::refuse_toml(#expr))
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace weir {

// Throws InputError with the line of a syntax error.
[[nodiscard]] toml::table parse_toml(const std::string& text, const std::string& file);

}  // namespace weir
