// A stream buffer over zlib that notices files cut short and values without end.
// SPDX-License-Identifier: Apache-2.0
#include "traces/kineto/gzip_file.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <cerrno>
#include <system_error>

#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::uintmax_t kLargestFile = std::uintmax_t{1} << 30;
constexpr std::uint64_t kLongestValue = std::uint64_t{64} << 20;
constexpr unsigned kBlock = 1U << 18;

}  // namespace

struct GzipFile::Handle {
  gzFile file;
  explicit Handle(gzFile opened) : file(opened) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { gzclose(file); }
};

GzipFile::GzipFile(const std::filesystem::path& file) : name_(file.string()), block_(kBlock) {
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    throw InputError(name_, "", "cannot be read: no such file");
  if (!std::filesystem::is_regular_file(file, error))
    throw InputError(name_, "", "expected a regular file");
  if (std::filesystem::file_size(file, error) > kLargestFile)
    throw InputError(name_, "", "is larger than 1 GiB");
  gzFile opened = gzopen(file.c_str(), "rb");  // reads what is not gzip as it is
  if (opened == nullptr)
    throw InputError(name_, "",
                     fmt::format("cannot be read: {}", std::generic_category().message(errno)));
  handle_ = std::make_unique<Handle>(opened);
  gzbuffer(handle_->file, kBlock);
}

GzipFile::~GzipFile() = default;

GzipFile::int_type GzipFile::underflow() {
  const int count = gzread(handle_->file, block_.data(), kBlock);
  if (count <= 0) {
    int code = Z_OK;
    gzerror(handle_->file, &code);
    if (code == Z_BUF_ERROR)  // zlib wanted more than there was
      throw InputError(name_, "", "ends in the middle of its gzip data: was it cut short?");
    if (count < 0) throw InputError(name_, "", "damaged gzip data");
    return traits_type::eof();
  }
  read_ += static_cast<std::uint64_t>(count);
  // The parser marks each key and bracket it passes: bytes since then are one value, which it would
  // keep whole.
  if (read_ - marked_ > kLongestValue)
    throw InputError(name_, "", "a single value longer than 64 MiB");
  setg(block_.data(), block_.data(), block_.data() + count);
  return traits_type::to_int_type(block_.front());
}

}  // namespace weir
