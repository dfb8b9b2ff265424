// `weir`: one sub-command of tools/weir/commands.cpp, by the options that its use case has
// (tools/app). Exit codes: 0 ok, 2 usage, 3 bad input, 4 no feasible plan, 5 missing hardware or
// component, 6 run failed.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/commands.hpp"
#include "tools/weir/signals.hpp"

int main(int argc, char** argv) {
  weir::take_signals();
  try {
    weir::CommandLine line;
    weir::add_commands(line);
    return line.run(argc, argv);
  } catch (...) {  // of telling what went wrong
    weir::end_without_memory();
  }
}
