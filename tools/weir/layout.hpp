// `weir model --layout FILE`: what each layout of a program of einsums costs a processor, derived
// and printed step by step; with --run, the layouts run for real beside the time predicted from the
// derivation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

namespace weir {

struct GlobalOptions;

struct LayoutOptions {
  std::filesystem::path file;
  bool run = false;
  int workers = 0;  // 0: all cores this process may use
  int rounds = 15;
};
void layout_command(const LayoutOptions& options, const GlobalOptions& global);

}  // namespace weir
