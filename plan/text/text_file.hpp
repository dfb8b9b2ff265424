// Files in and out. What existed before is never lost or half-written: a new file is written beside
// the old one, made durable, and renamed over it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace weir {

// The whole file. Throws InputError when it cannot be read, is not a regular file, or is larger
// than 1 GiB.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& file);

// From here on pipes and devices are refused by all that reads whole files, in this process: who
// answers others waits for nobody to write into a pipe.
void read_files_alone();

// Creates missing folders. Throws InputError when it cannot be written; then the earlier file is
// untouched.
void write_file_atomically(const std::filesystem::path& file, std::string_view bytes);

}  // namespace weir
