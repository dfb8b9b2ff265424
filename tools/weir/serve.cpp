// The link, as long as it is of use.
// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/serve.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "tools/weir/commands.hpp"

namespace weir {

void print_link(const std::string& link) {
  fmt::print("{}\n", link);
  if (std::fflush(stdout) != 0)
    throw std::system_error(errno, std::generic_category(), "standard output");
}

// The link was all there is to print.
void print(Printout& /*out*/, const ServeRequest& /*request*/, const ServeResult& /*result*/) {}

}  // namespace weir
