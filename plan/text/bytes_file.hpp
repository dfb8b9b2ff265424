// Files that are no texts: data to train on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace weir {

inline constexpr std::uintmax_t kLargestFile = std::uintmax_t{1} << 30;

// The whole file, a pipe's or a device's bytes until it ends. Throws InputError when it cannot be
// read, is a folder, or is larger than 1 GiB.
[[nodiscard]] std::string read_bytes(const std::filesystem::path& file);

}  // namespace weir
