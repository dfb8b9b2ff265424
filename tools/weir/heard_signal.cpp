// A handler has no argument of ours: what it sets can only be global.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/heard_signal.hpp"

#include <csignal>

namespace weir {
namespace {

volatile std::sig_atomic_t first_signal = 0;

}  // namespace

int heard_signal() { return first_signal; }

void hear_signal(int signal) noexcept {
  if (first_signal == 0) first_signal = signal;
}

}  // namespace weir
