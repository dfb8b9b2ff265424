// Samples by counter: windows of a file, or synthetic tokens that follow a rule three times in
// four.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/batches.hpp"

#include <fmt/format.h>

#include "exec/training/philox.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {
constexpr std::uint32_t kDataStream =
    0x64617461;  // keeps these numbers apart from dropout's and the initial weights'
}

Batches::Batches(const std::optional<std::filesystem::path>& data, std::int64_t vocabulary,
                 std::int64_t seq_length, std::uint64_t seed)
    : vocabulary_(vocabulary), seq_length_(seq_length), seed_(seed) {
  if (!data) return;
  if (vocabulary < 256) {
    throw InputError(data->string(), "",
                     fmt::format("bytes need a vocabulary of 256, the model's is {}", vocabulary));
  }
  text_ = read_text_file(*data);
  if (static_cast<std::int64_t>(text_.size()) < seq_length + 1) {
    throw InputError(
        data->string(), "",
        fmt::format("{} bytes, expected at least {} for one sample", text_.size(), seq_length + 1));
  }
}

void Batches::sample(std::uint32_t step, std::uint32_t index, std::int32_t* tokens) const {
  const auto draw = [&](std::uint32_t block) {
    return philox4x32_10(PhiloxBlock{{block, index, step, kDataStream}}, seed_);
  };
  const std::int64_t count = seq_length_ + 1;
  if (!text_.empty()) {
    const PhiloxBlock block = draw(0);
    const std::uint64_t number = (std::uint64_t{block.word[1]} << 32) | block.word[0];
    const auto start =
        static_cast<std::int64_t>(number % (text_.size() - static_cast<std::size_t>(count) + 1));
    for (std::int64_t i = 0; i < count; ++i) {
      tokens[i] = static_cast<unsigned char>(text_[static_cast<std::size_t>(start + i)]);
    }
    return;
  }
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const PhiloxBlock block = draw(static_cast<std::uint32_t>(i));
    // Three tokens in four follow from the one before, so that there is something to learn.
    const bool follows = i > 0 && block.word[0] % 4 != 0;
    last = follows ? (last * 5 + 7) % vocabulary_
                   : static_cast<std::int64_t>(block.word[1]) % vocabulary_;
    tokens[i] = static_cast<std::int32_t>(last);
  }
}

}  // namespace weir
