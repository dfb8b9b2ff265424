// What people read of `weir page`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/page/page.hpp"

#include <fmt/core.h>

#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {

void print(Printout& out, const app::PageRequest& /*request*/, const app::PageResult& result) {
  out.say("{}: open it in a browser\n", result.page.string());
}

}  // namespace weir
