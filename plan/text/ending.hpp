// What an exception means to the person at the command: an exit code and one line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace weir {

struct Ending {
  int exit_code =
      0;  // 2 usage, 3 bad input, 4 no feasible plan, 5 missing component, 6 run failed, 1 a bug
  std::string line;
};

[[nodiscard]] Ending ending_of(const std::exception_ptr& thrown);

}  // namespace weir
