// `weir` with `tune` as its one command: some two thirds of the whole to compile, for the first
// minutes on a machine (tools/quickstart).
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "tools/app/evaluate/tune.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/signals.hpp"

int main(int argc, char** argv) {
  weir::take_signals();
  try {
    weir::CommandLine line;
    line.add(weir::app::kTune, weir::print);
    return line.run(argc, argv);
  } catch (...) {  // of telling what went wrong
    weir::end_without_memory();
  }
}
