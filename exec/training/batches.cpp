// Samples by counter: windows of files in a shuffled order, or synthetic tokens that follow a rule
// three times in four.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/batches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "exec/training/philox.hpp"
#include "plan/text/bytes_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// Keep these numbers apart from each other, dropout's and the initial weights'.
constexpr std::uint32_t kDataStream = 0x64617461;
constexpr std::uint32_t kOrderStream = 0x6f726472;

}  // namespace

// A Feistel network over the next even number of bits, four rounds (Luby and Rackoff, 1988), walked
// until it lands among the `count`: at most some four times on average.
std::int64_t shuffled(std::int64_t place, std::int64_t count, std::uint64_t seed,
                      std::uint32_t epoch) {
  const int bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(count - 1, 1)));
  const int half = (bits + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  auto at = static_cast<std::uint64_t>(place);
  do {
    std::uint64_t left = at >> half, right = at & mask;
    for (std::uint32_t round = 0; round < 4; ++round) {
      const PhiloxBlock block = philox4x32_10(
          PhiloxBlock{{static_cast<std::uint32_t>(right), round, epoch, kOrderStream}}, seed);
      left = std::exchange(right, left ^ (block.word[0] & mask));
    }
    at = (left << half) | right;
  } while (at >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(at);
}

Batches::Batches(BatchRequest request) : request_(std::move(request)) {
  for (const std::filesystem::path& file : request_.files) add(file);
}

void Batches::add(const std::filesystem::path& file) {
  if (request_.vocabulary < 256) {
    throw InputError(
        file.string(), "",
        fmt::format("bytes need a vocabulary of 256, the model's is {}", request_.vocabulary));
  }
  Text text{read_bytes(file)};
  const auto bytes = static_cast<std::int64_t>(text.bytes.size());
  if (bytes < request_.seq_length + 1) {
    throw InputError(file.string(), "",
                     fmt::format("{} bytes, expected at least {} for one sample", bytes,
                                 request_.seq_length + 1));
  }
  text.windows = (bytes - 1) / request_.seq_length;
  windows_ += text.windows;
  texts_.push_back(std::move(text));
}

void Batches::sample(std::uint32_t step, std::uint32_t index, std::int32_t* tokens) const {
  if (texts_.empty()) return draw(step, index, tokens);
  const std::int64_t number = std::int64_t{step} * request_.samples + index;
  const auto epoch = static_cast<std::uint32_t>(number / windows_);
  std::int64_t window = number % windows_;
  if (request_.shuffled) window = shuffled(window, windows_, request_.seed, epoch);
  const Text* text = texts_.data();
  while (window >= text->windows) window -= (text++)->windows;
  const char* first = text->bytes.data() + window * request_.seq_length;
  for (std::int64_t i = 0; i <= request_.seq_length; ++i)
    tokens[i] = static_cast<unsigned char>(first[i]);
}

// Three tokens in four follow from the one before, so that there is something to learn.
void Batches::draw(std::uint32_t step, std::uint32_t index, std::int32_t* tokens) const {
  const std::int64_t vocabulary = request_.vocabulary;
  std::int64_t last = 0;
  for (std::int64_t i = 0; i <= request_.seq_length; ++i) {
    const PhiloxBlock block = philox4x32_10(
        PhiloxBlock{{static_cast<std::uint32_t>(i), index, step, kDataStream}}, request_.seed);
    const bool follows = i > 0 && block.word[0] % 4 != 0;
    last = follows ? (last * 5 + 7) % vocabulary
                   : static_cast<std::int64_t>(block.word[1]) % vocabulary;
    tokens[i] = static_cast<std::int32_t>(last);
  }
}

}  // namespace weir
