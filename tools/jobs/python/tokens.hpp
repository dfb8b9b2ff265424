// The words of a Python source file, with the indents that Python makes blocks of. Nothing of it
// is ever run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weir {

struct PythonToken {
  enum class Kind : std::uint8_t {
    name,
    number,
    text,    // a string: `text` is what it holds
    opaque,  // a string with something to work out in it (f"..."), or bytes
    sign,
    newline,  // the end of a logical line
    indent,
    dedent,
    end
  };
  Kind kind = Kind::end;
  std::string text;
  int line = 1;
  std::size_t begin = 0, end = 0;  // in the source
};

// Ends with one of kind `end`. Throws InputError with the line of what is no Python.
[[nodiscard]] std::vector<PythonToken> python_tokens(const std::string& source,
                                                     const std::string& file);

}  // namespace weir
