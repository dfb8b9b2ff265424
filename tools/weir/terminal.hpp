// What people read on stdout. Names come from files, and a file may hold anything: what would steer
// the terminal is shown as what it is (plan/text/quote, printable).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <utility>

#include "plan/text/quote.hpp"

namespace weir {

template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = printable(fmt::format(format, std::forward<Arguments>(arguments)...));
  fmt::print("{}", text);
}

}  // namespace weir
