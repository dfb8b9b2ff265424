// Why a command line is refused, in one line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace weir {

// What CLI11 found, and what was probably meant by a word that nobody knows.
[[nodiscard]] std::string refusal(const CLI::App& app, const CLI::ParseError& error);

}  // namespace weir
