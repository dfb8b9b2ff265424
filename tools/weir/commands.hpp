// The sub-commands of `weir`, one file each. A command registers its options and a callback; it prints data on
// stdout, progress and logs on stderr, and reports failure by throwing (plan/error.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace CLI {
class App;
}

namespace weir {

struct GlobalOptions {
  bool json = false;
  bool quiet = false;
  std::uint64_t seed = 1;
};

void add_model_command(CLI::App& app, GlobalOptions& global);

}  // namespace weir
