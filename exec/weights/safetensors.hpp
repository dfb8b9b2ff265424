// Tensors in files, as Hugging Face keeps them (github.com/huggingface/safetensors, "Format"): the
// length of a header in eight little-endian bytes, the header, a JSON object from a tensor's name
// to its dtype, shape and place, then the tensors' bytes, row-major and little-endian.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/text/new_file.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/unchanged_file.hpp"

namespace weir {

struct StoredTensor {
  std::string dtype;  // the format's word: "F32", "BF16", "F16", "I64", ...
  std::vector<std::int64_t> shape;
  std::shared_ptr<const UnchangedFile> file;
  std::uint64_t begin = 0, size = 0;  // its bytes in the file
  [[nodiscard]] std::int64_t elements() const;
  // Its bytes, read now. Throws as UnchangedFile::read() does, as to_floats() and all below.
  [[nodiscard]] std::vector<std::byte> bytes() const;
};

// Opening a file reads its header alone.
class SafetensorsFile {
 public:
  // Throws InputError, naming the tensor, for a file that is not what the format says: a header
  // that is longer than the file or than 100 MB, places that overlap, leave a gap or lie outside,
  // and sizes that are not the shape's.
  explicit SafetensorsFile(const std::filesystem::path& file);

  [[nodiscard]] const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  void add_to(Sha256& digest) const;  // the bytes of the whole file
  // Reads the whole file where it has a seal. Throws InputError, naming `file`, where it is not as
  // it was sealed.
  void check_seal(const std::string& file) const;

 private:
  std::shared_ptr<const UnchangedFile> file_;
  std::optional<std::uint64_t> seal_at_;  // where the digits begin
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// The numbers of a tensor in F32, F16 or BF16, each of which fp32 holds exactly; `where` names it.
// Throws InputError for another dtype.
[[nodiscard]] std::vector<float> to_floats(const StoredTensor& tensor, const std::string& where);

// A tensor to be written.
struct TensorShape {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string dtype = "F32";  // or "I32"
};

using WeightMetadata = std::map<std::string, std::string>;

// Whether a file says by its metadata "weir.sha256" that it is as it was written (plan/text/seal).
enum class Seal : std::uint8_t { none, own };

// Writes a file tensor by tensor; it is there once `commit` returns, and not before.
class SafetensorsWriter {
 public:
  // The header follows from the shapes, so that no tensor but the one in hand need be in memory.
  // A stream gets no seal. Throws as NewFile does.
  SafetensorsWriter(const std::filesystem::path& file, std::vector<TensorShape> tensors,
                    WeightMetadata metadata, Seal seal = Seal::none);
  // The next tensor, in the order given. Precondition: it has that shape's numbers.
  void add(std::span<const float> values) { add(std::as_bytes(values)); }
  void add(std::span<const std::byte> values);
  // Precondition: all have been added.
  void commit();
  // Of the file's bytes, a seal's digits as zeros; once it is committed.
  [[nodiscard]] const std::string& sha256() const { return sha256_; }

 private:
  void write(std::string_view bytes);

  NewFile file_;
  Sha256 digest_;
  std::string sha256_;
  std::optional<std::size_t> seal_at_;
  std::vector<TensorShape> tensors_;
  std::size_t added_ = 0;
};

}  // namespace weir
