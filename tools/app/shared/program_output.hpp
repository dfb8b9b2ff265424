// What a program of the user's own prints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace weir::app {

struct ProgramLimits {
  std::chrono::milliseconds time{std::chrono::minutes(10)};
  std::size_t bytes = std::size_t{64} << 20;
};

// The standard output of a shell command; its standard error goes where ours goes. It ends with us,
// and at its limits. Throws InputError: it cannot be started, ends with another status than 0 or by
// a signal, prints more or takes longer than its limits.
[[nodiscard]] std::string output_of(const std::string& command, const ProgramLimits& limits = {});

}  // namespace weir::app
