// Tokens, their types and labels out of a safetensors file.
// SPDX-License-Identifier: Apache-2.0
#include "exec/run/labelled_tokens.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "exec/weights/safetensors.hpp"
#include "plan/model/sample.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr const char* kInputs = "input_ids";
constexpr const char* kTypes = "token_type_ids";
constexpr const char* kLabels = "labels";

class LabelledFile {
 public:
  LabelledFile(const std::filesystem::path& file, const LabelledSizes& sizes)
      : name_(file.string()), sizes_(sizes), file_(file) {
    for (const auto& [name, tensor] : file_.tensors()) {
      if (name != kInputs && name != kTypes && name != kLabels)
        fail(name, "expected input_ids, labels and token_type_ids alone");
    }
    samples_ = find(kInputs).shape.front();
  }

  [[nodiscard]] std::vector<std::int32_t> words() const {
    const std::int64_t s = sizes_.seq_length;
    std::vector<std::int32_t> words(static_cast<std::size_t>(samples_ * 3 * s), 0);
    put(kInputs, sizes_.vocabulary, 0, words);
    if (file_.tensors().contains(kTypes)) put(kTypes, sizes_.token_types, 1, words);
    put(kLabels, sizes_.vocabulary, 2, words);
    return words;
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    throw InputError(name_, key, what);
  }

  // A tensor of the right type and shape.
  [[nodiscard]] const StoredTensor& find(const char* name) const {
    const auto found = file_.tensors().find(name);
    if (found == file_.tensors().end()) fail(name, "is not there");
    const StoredTensor& tensor = found->second;
    if (tensor.dtype != "I64" && tensor.dtype != "I32")
      fail(name, tensor.dtype + ", expected I64 or I32");
    const std::int64_t samples = samples_ > 0 ? samples_ : tensor.elements() / sizes_.seq_length;
    if (tensor.shape != std::vector{samples, sizes_.seq_length} || samples == 0) {
      fail(name, fmt::format("shape [{}], expected [samples, {}], of as many samples as input_ids",
                             fmt::join(tensor.shape, ", "), sizes_.seq_length));
    }
    return tensor;
  }

  template <class Number>
  static std::int64_t number(std::span<const std::byte> bytes, std::int64_t at) {
    Number number = 0;
    std::memcpy(&number, bytes.data() + static_cast<std::size_t>(at) * sizeof(Number),
                sizeof(Number));
    return number;
  }

  // The tensor's rows into part `part` of each sample's words.
  void put(const char* name, std::int64_t below, std::int64_t part,
           std::vector<std::int32_t>& words) const {
    const StoredTensor& tensor = find(name);
    const std::vector<std::byte> bytes = tensor.bytes();
    const bool wide = tensor.dtype == "I64";
    const std::int64_t s = sizes_.seq_length;
    const bool labels = part == 2;
    bool any = !labels;
    for (std::int64_t i = 0; i < samples_ * s; ++i) {
      const std::int64_t value =
          wide ? number<std::int64_t>(bytes, i) : number<std::int32_t>(bytes, i);
      // -100 is the frameworks' word for a place without a label.
      const bool none = labels && value == kNoLabel;
      if (!none && (value < 0 || value >= below)) {
        fail(name, fmt::format("sample {}, place {}: {}, expected 0 to {}{}", i / s, i % s, value,
                               below - 1, labels ? ", or -100 for none" : ""));
      }
      any = any || !none;
      words[static_cast<std::size_t>((i / s * 3 + part) * s + i % s)] =
          static_cast<std::int32_t>(value);
    }
    if (!any) fail(name, "has no label: all are -100");
  }

  std::string name_;
  LabelledSizes sizes_;
  SafetensorsFile file_;
  std::int64_t samples_ = 0;  // 0: not known yet
};

}  // namespace

bool holds_labels(const std::filesystem::path& file) { return file.extension() == ".safetensors"; }

std::vector<std::int32_t> read_labelled(const std::filesystem::path& file,
                                        const LabelledSizes& sizes) {
  return LabelledFile(file, sizes).words();
}

}  // namespace weir
