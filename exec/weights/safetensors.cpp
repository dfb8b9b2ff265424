// The format's header, read with every check that its reader names, and written.
// SPDX-License-Identifier: Apache-2.0
#include "exec/weights/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "plan/text/seal.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using Header = nlohmann::json;  // sorted: a look-up in a header of many tensors is not a walk

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the format's own limit
constexpr int kDeepest = 3;                            // object, tensor, list
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;
constexpr std::string_view kMetadata = "__metadata__";
constexpr const char* kSealName = "weir.sha256";

// Where the seal's digits begin: as JSON is written, no text within it can look like this.
std::optional<std::size_t> seal_in(std::string_view header) {
  const std::string before = fmt::format("\"{}\":\"", kSealName);
  const std::size_t found = header.find(before);
  if (found == header.npos || header.size() - found < before.size() + kSealDigits)
    return std::nullopt;
  return found + before.size();
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr std::pair<std::string_view, std::int64_t> kBytesOf[] = {
    {"F64", 8},  {"F32", 4}, {"F16", 2},     {"BF16", 2},    {"I64", 8},    {"I32", 4},
    {"I16", 2},  {"I8", 1},  {"U64", 8},     {"U32", 4},     {"U16", 2},    {"U8", 1},
    {"BOOL", 1}, {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};

// The header's text. Throws InputError where the file cannot hold what its first bytes say.
std::string header_of(const UnchangedFile& file, const std::string& name) {
  if (file.size() <= kLengthBytes)
    throw InputError(name, "", fmt::format("{} bytes, expected a safetensors file", file.size()));
  std::uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  // The length is the file's own word: held against the file before anything is read by it.
  if (length > kLongestHeader || length > file.size() - kLengthBytes) {
    throw InputError(name, "",
                     fmt::format("a header of {} bytes in a file of {}: no safetensors file",
                                 length, file.size()));
  }
  std::string header(length, '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(header)));
  return header;
}

// Reads the header of one file; all complaints are about it.
class HeaderReader {
 public:
  HeaderReader(std::string name, std::shared_ptr<const UnchangedFile> file, std::size_t header)
      : name_(std::move(name)), file_(std::move(file)), data_(kLengthBytes + header) {}

  void read(std::string_view text, std::map<std::string, StoredTensor>& tensors,
            std::map<std::string, std::string>& metadata) const {
    const Header header = parse(text);
    if (!header.is_object()) fail("", "the header is no JSON object");
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        read_metadata(value, metadata);
      } else {
        tensors.emplace(name, tensor(name, value));
      }
    }
    require_no_gap(tensors);
  }

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    throw InputError(name_, name.substr(0, 80), what);
  }

  [[nodiscard]] Header parse(std::string_view text) const {
    std::set<std::string> seen;
    // The parser keeps the last of two equal names, and would nest as deep as it is told to.
    const auto watch = [&](int depth, Header::parse_event_t event, const Header& value) {
      if (depth > kDeepest) fail("", "the header nests deeper than the format");
      if (event != Header::parse_event_t::key || depth != 1) return true;
      if (!seen.insert(value.get<std::string>()).second)
        fail(value.get<std::string>(), "the name is there twice");
      return true;
    };
    try {
      return Header::parse(text, watch);
    } catch (const nlohmann::json::exception&) {
      fail("", "the header is no valid JSON: no safetensors file");
    }
  }

  void read_metadata(const Header& value, std::map<std::string, std::string>& metadata) const {
    if (!value.is_object()) fail(std::string(kMetadata), "expected an object of texts");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail(std::string(kMetadata), key + ": expected a text");
      metadata[key] = text.get<std::string>();
    }
  }

  [[nodiscard]] std::int64_t whole(const std::string& name, const Header& value) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMostElements)
      fail(name, fmt::format("{}: expected a number up to 2^48", value.dump().substr(0, 40)));
    return value.get<std::int64_t>();
  }

  [[nodiscard]] StoredTensor tensor(const std::string& name, const Header& value) const {
    for (const char* key : {"dtype", "shape", "data_offsets"}) {
      // Exactly these three: an unknown key might change what the bytes mean.
      if (!value.is_object() || value.size() != 3 || !value.contains(key))
        fail(name, "expected dtype, shape and data_offsets");
    }
    StoredTensor made;
    if (value["dtype"].is_string()) made.dtype = value["dtype"].get<std::string>();
    const auto* known =
        std::ranges::find(kBytesOf, made.dtype, &std::pair<std::string_view, std::int64_t>::first);
    if (known == std::end(kBytesOf)) fail(name, "dtype: no word of the format");
    if (!value["shape"].is_array()) fail(name, "shape: expected a list");
    std::int64_t elements = 1;
    for (const Header& size : value["shape"]) {
      made.shape.push_back(whole(name, size));
      // A product that wraps could pass for a small one.
      if (__builtin_mul_overflow(elements, made.shape.back(), &elements) ||
          elements > kMostElements) {
        fail(name, "shape: more than 2^48 numbers");
      }
    }
    const Header& place = value["data_offsets"];
    if (!place.is_array() || place.size() != 2) fail(name, "data_offsets: expected two numbers");
    const std::int64_t begin = whole(name, place[0]), end = whole(name, place[1]);
    const std::uint64_t behind = file_->size() - data_;
    if (begin > end || end > static_cast<std::int64_t>(behind)) {
      fail(name, fmt::format("data_offsets: [{}, {}) is not within the file's {} bytes of tensors",
                             begin, end, behind));
    }
    if (end - begin != elements * known->second) {
      fail(name, fmt::format("data_offsets: {} bytes, its shape has {}", end - begin,
                             elements * known->second));
    }
    made.file = file_;
    made.begin = data_ + static_cast<std::uint64_t>(begin);
    made.size = static_cast<std::uint64_t>(end - begin);
    return made;
  }

  // The tensors fill what is behind the header, each byte once.
  void require_no_gap(const std::map<std::string, StoredTensor>& tensors) const {
    std::vector<std::pair<std::uint64_t, const std::map<std::string, StoredTensor>::value_type*>>
        places;
    for (const auto& named : tensors) {
      if (named.second.size > 0) places.emplace_back(named.second.begin, &named);
    }
    // By place in the file: each must begin where the one before ends.
    std::ranges::sort(places);
    std::uint64_t next = data_;
    for (const auto& [begin, named] : places) {
      if (begin != next)
        fail(named->first, begin < next ? "data_offsets: overlaps another tensor"
                                        : "data_offsets: leaves a gap before it");
      next = begin + named->second.size;
    }
    if (next != file_->size()) {
      fail("", fmt::format("{} bytes behind the last tensor: cut off or no safetensors file",
                           file_->size() - next));
    }
  }

  std::string name_;
  std::shared_ptr<const UnchangedFile> file_;
  std::uint64_t data_;  // where the tensors begin, behind the header
};

// IEEE 754 binary16: sign, 5 bits of exponent, 10 of fraction.
float from_fp16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU, fraction = half & 0x3FFU;
  if (exponent == 0) {  // zero, or subnormal: fraction * 2^-24
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;  // biases: 15 and 127
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

float from_bf16(std::uint16_t upper) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(upper) << 16);
}

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

std::int64_t StoredTensor::elements() const { return product(shape); }

std::vector<std::byte> StoredTensor::bytes() const {
  std::vector<std::byte> read(size);
  file->read(begin, read);
  return read;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file)
    : file_(std::make_shared<const UnchangedFile>(file)) {
  const std::string header = header_of(*file_, file.string());
  HeaderReader(file.string(), file_, header.size()).read(header, tensors_, metadata_);
  if (const auto at = seal_in(header)) seal_at_ = kLengthBytes + *at;
}

void SafetensorsFile::add_to(Sha256& digest) const {
  file_->each_piece(0, file_->size(),
                    [&](std::span<const std::byte> piece) { digest.update(piece); });
}

std::vector<float> to_floats(const StoredTensor& tensor, const std::string& where) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  if (tensor.dtype == "F32") {
    tensor.file->read(tensor.begin, std::as_writable_bytes(std::span(values)));
    return values;
  }
  if (tensor.dtype != "F16" && tensor.dtype != "BF16")
    throw InputError(where, "", tensor.dtype + ", expected F32, F16 or BF16");
  float (*const widen)(std::uint16_t) = tensor.dtype == "F16" ? from_fp16 : from_bf16;
  const std::vector<std::byte> bytes = tensor.bytes();
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t stored = 0;
    std::memcpy(&stored, &bytes[2 * i], 2);
    values[i] = widen(stored);
  }
  return values;
}

void SafetensorsFile::check_seal(const std::string& file) const {
  const auto named = metadata_.find(kSealName);
  if (named == metadata_.end()) return;
  if (seal_at_) {
    Sha256 digest;
    const auto add = [&](std::span<const std::byte> piece) { digest.update(piece); };
    file_->each_piece(0, *seal_at_, add);
    const std::string zeros = open_seal();
    digest.update(std::as_bytes(std::span(zeros)));
    file_->each_piece(*seal_at_ + kSealDigits, file_->size(), add);
    if (digest.hex() == named->second) return;
  }
  throw InputError(file, std::string(kMetadata) + "." + kSealName,
                   "the file is not as it was written: its weights are damaged or were changed");
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file,
                                     std::vector<TensorShape> tensors, WeightMetadata metadata,
                                     Seal seal)
    : file_(file), tensors_(std::move(tensors)) {
  const bool sealed = seal == Seal::own && !file_.is_stream();
  metadata.erase(kSealName);  // what was read elsewhere is another file's
  if (sealed) metadata[kSealName] = open_seal();
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  std::int64_t begin = 0;
  for (const TensorShape& tensor : tensors_) {
    const std::int64_t end = begin + product(tensor.shape) * 4;
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors begin aligned, as other writers have it
  const std::uint64_t length = text.size();
  write({reinterpret_cast<const char*>(&length), kLengthBytes});
  write(text);
  if (sealed) seal_at_ = kLengthBytes + seal_in(text).value();
}

void SafetensorsWriter::write(std::string_view bytes) {
  digest_.update(std::as_bytes(std::span(bytes)));
  file_.write(bytes);
}

void SafetensorsWriter::add(std::span<const std::byte> values) {
  assert(added_ < tensors_.size() && "more tensors than the header has");
  assert(static_cast<std::int64_t>(values.size()) == product(tensors_[added_].shape) * 4 &&
         "a tensor of another size than the header says");
  ++added_;
  write(as_text(values));
}

void SafetensorsWriter::commit() {
  assert(added_ == tensors_.size() && "fewer tensors than the header has");
  sha256_ = digest_.hex();
  if (seal_at_) file_.write_again(*seal_at_, sha256_);
  file_.commit();
}

}  // namespace weir
