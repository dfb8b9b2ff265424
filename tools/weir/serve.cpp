// The link, as long as it is of use.
// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/serve.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <tuple>

#include "tools/weir/commands.hpp"

namespace weir {

void print_link(const std::string& link) {
  fmt::print("{}\n", link);
  std::ignore = std::fflush(stdout);
}

// The link was all there is to print.
void print(Printout& /*out*/, const ServeRequest& /*request*/, const ServeResult& /*result*/) {}

}  // namespace weir
