// The one table of the command's exit codes.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/exit_code.hpp"

namespace weir {

int exit_code(EndKind kind) {
  switch (kind) {
    case EndKind::done:
      return 0;
    case EndKind::usage:
      return 2;
    case EndKind::bad_input:
      return 3;
    case EndKind::no_plan:
      return 4;
    case EndKind::missing:
      return 5;
    case EndKind::failed:
      return 6;
    case EndKind::bug:
      break;
  }
  return 6;
}

}  // namespace weir
