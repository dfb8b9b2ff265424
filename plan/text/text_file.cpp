// Whole files in and out: bounded when read, never half there when written.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/text_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "plan/text/new_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::uintmax_t kLargestFile = std::uintmax_t{1} << 30;

}  // namespace

std::string read_text_file(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (error || !std::filesystem::exists(status))
    throw InputError(file.string(), "", "cannot be read: no such file");
  if (std::filesystem::is_directory(status))
    throw InputError(file.string(), "", "is a folder, expected a file");
  if (std::filesystem::is_regular_file(status) &&
      std::filesystem::file_size(file, error) > kLargestFile) {
    throw InputError(file.string(), "", "is larger than 1 GiB");
  }
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw InputError(file.string(), "", fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) throw InputError(file.string(), "", "cannot be read to its end");
  return text;
}

void write_file_atomically(const std::filesystem::path& file, std::string_view bytes) {
  NewFile written(file);
  written.write(bytes);
  written.commit();
}

}  // namespace weir
