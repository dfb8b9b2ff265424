// Samples by counter: windows of files in a shuffled order, or synthetic tokens that follow a rule
// three times in four.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/batches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <system_error>
#include <utility>

#include "exec/training/philox.hpp"
#include "plan/model/sample.hpp"
#include "plan/text/bytes_file.hpp"
#include "plan/text/unchanged_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// Keep these numbers apart from each other, dropout's and the initial weights'.
constexpr std::uint32_t kDataStream = 0x64617461;
constexpr std::uint32_t kOrderStream = 0x6f726472;
constexpr std::uint32_t kImageStream = 0x696d6167;
constexpr std::uint32_t kMaskStream = 0x6d61736b;

}  // namespace

std::string read_data(const std::filesystem::path& file) {
  std::error_code none;  // what cannot be looked at is told by who reads it
  const auto status = std::filesystem::status(file, none);
  if (std::filesystem::is_fifo(status) || std::filesystem::is_socket(status)) {
    throw InputError(file.string(), "",
                     "is a pipe, expected a file: data is read again when a run goes on");
  }
  if (!std::filesystem::is_regular_file(status)) return read_bytes(file);
  const UnchangedFile open(file);
  // A file of the kernel's own has bytes and no size, one that is too large is refused there.
  if (open.size() == 0 || open.size() > kLargestFile) return read_bytes(file);
  std::string bytes(open.size(), '\0');
  open.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// A Feistel network over the next even number of bits, four rounds (Luby and Rackoff, 1988), walked
// until it lands among the `count`: at most some four times on average.
std::int64_t shuffled(std::int64_t place, std::int64_t count, std::uint64_t seed,
                      std::uint32_t epoch) {
  // One bit at least: a permutation of a single place is legal.
  const int bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(count - 1, 1)));
  const int half = (bits + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  auto at = static_cast<std::uint64_t>(place);
  // Cycle walking: a place beyond `count` is permuted again until one lies within, so the order
  // stays one to one.
  do {
    std::uint64_t left = at >> half, right = at & mask;
    for (std::uint32_t round = 0; round < 4; ++round) {
      // The round function need not be invertible; the network is, whatever it is.
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

std::int64_t Batches::record_bytes() const {
  return request_.image.numbers() > 0 ? request_.targets + request_.image.numbers()
                                      : request_.seq_length;
}

void Batches::add(const std::filesystem::path& file) {
  if (request_.image.numbers() > 0) return add_images(file);
  if (request_.labelled) {
    std::vector<std::int32_t> words = request_.labelled(file);
    // Of each sample: tokens, their types and their labels, one after the other.
    if (!words.empty()) {
      const auto windows = static_cast<std::int64_t>(words.size()) / (3 * request_.seq_length);
      windows_ += windows;
      return texts_.push_back({"", windows, std::move(words)});
    }
  }
  // What hides a token is a token of its own.
  const std::int64_t needed = request_.masked ? 257 : 256;
  if (request_.vocabulary < needed) {
    throw InputError(file.string(), "",
                     fmt::format("bytes need a vocabulary of {}, the model's is {}", needed,
                                 request_.vocabulary));
  }
  Text text{read_data(file), 0, {}};
  const auto bytes = static_cast<std::int64_t>(text.bytes.size());
  if (bytes < request_.seq_length + 1) {
    throw InputError(file.string(), "",
                     fmt::format("{} bytes, expected at least {} for one sample", bytes,
                                 request_.seq_length + 1));
  }
  // The last byte of a window is its last target and the next window's first token.
  text.windows = (bytes - 1) / request_.seq_length;
  windows_ += text.windows;
  texts_.push_back(std::move(text));
}

void Batches::add_images(const std::filesystem::path& file) {
  Text text{read_data(file), 0, {}};
  const auto bytes = static_cast<std::int64_t>(text.bytes.size());
  if (bytes == 0 || bytes % record_bytes() != 0) {
    throw InputError(
        file.string(), "",
        fmt::format("{} bytes, expected records of {} labels and {} numbers, a byte each", bytes,
                    request_.targets, request_.image.numbers()));
  }
  text.windows = bytes / record_bytes();
  for (std::int64_t record = 0; record < text.windows; ++record) {
    for (std::int64_t target = 0; target < request_.targets; ++target) {
      const auto at = static_cast<std::size_t>(record * record_bytes() + target);
      const auto label = static_cast<unsigned char>(text.bytes[at]);
      if (label < request_.vocabulary) continue;
      throw InputError(
          file.string(), fmt::format("record {}", record),
          fmt::format("label {}, the model has {} classes", label, request_.vocabulary));
    }
  }
  windows_ += text.windows;
  texts_.push_back(std::move(text));
}

// A sample depends on step and index alone, never on who draws it: so every plan trains on the
// same.
void Batches::sample(std::uint32_t step, std::uint32_t index, std::int32_t* tokens) const {
  const bool images = request_.image.numbers() > 0;
  if (texts_.empty()) {
    if (images) return draw_image(step, index, tokens);
    draw(step, index, tokens);
    if (request_.masked) hide(step, index, tokens);
    return;
  }
  // One count over all epochs; each has an order of its own.
  const std::int64_t number = std::int64_t{step} * request_.samples + index;
  const auto epoch = static_cast<std::uint32_t>(number / windows_);
  std::int64_t window = number % windows_;
  if (request_.shuffled) window = shuffled(window, windows_, request_.seed, epoch);
  const Text* text = texts_.data();
  while (window >= text->windows) window -= (text++)->windows;
  if (!text->labelled.empty()) {
    const std::int64_t words = 3 * request_.seq_length;
    std::copy_n(text->labelled.begin() + window * words, words, tokens);
    return;
  }
  const char* first = text->bytes.data() + window * record_bytes();
  if (images) return read_image(first, tokens);
  for (std::int64_t i = 0; i <= request_.seq_length; ++i)
    tokens[i] = static_cast<unsigned char>(first[i]);
  if (request_.masked) hide(step, index, tokens);
}

std::optional<std::int64_t> Batches::labels(std::uint32_t step) const {
  if (!request_.masked) return std::nullopt;
  std::vector<std::int32_t> words(static_cast<std::size_t>(3 * request_.seq_length));
  std::int64_t labels = 0;
  for (std::int64_t i = 0; i < request_.samples; ++i) {
    sample(step, static_cast<std::uint32_t>(i), words.data());
    labels += std::count_if(words.begin() + 2 * request_.seq_length, words.end(),
                            [](std::int32_t label) { return label != kNoLabel; });
  }
  return labels;
}

// Devlin et al., NAACL 2019, section 3.1, drawn anew for each step (Liu et al., "RoBERTa", 2019).
void Batches::hide(std::uint32_t step, std::uint32_t index, std::int32_t* words) const {
  const std::int64_t s = request_.seq_length;
  const auto at = [&](std::int64_t place) {
    return philox4x32_10(PhiloxBlock{{static_cast<std::uint32_t>(place), index, step, kMaskStream}},
                         request_.seed);
  };
  // A threshold on 32 bits: 15 % of words lie below it.
  constexpr auto kHidden = static_cast<std::uint32_t>(0.15 * 4294967296.0);
  // One token at least is hidden, or the sample would have no loss.
  const std::int64_t always = at(s).word[0] % s;
  const std::int64_t vocabulary = request_.vocabulary;
  for (std::int64_t i = 0; i < s; ++i) {
    const PhiloxBlock drawn = at(i);
    const bool hidden = i == always || drawn.word[0] < kHidden;
    std::int32_t& token = words[i];
    words[s + i] = 0;  // all of one type
    words[2 * s + i] = hidden ? token : kNoLabel;
    if (!hidden) continue;
    // Of ten: eight become the mask's token, one a random one, one stays as it is.
    const std::uint32_t how = drawn.word[1] % 10;
    if (how < 8) token = static_cast<std::int32_t>(vocabulary - 1);
    if (how == 8) token = static_cast<std::int32_t>(drawn.word[2] % vocabulary);
  }
}

// From a record's channels one after the other to channels innermost.
void Batches::read_image(const char* record, std::int32_t* words) const {
  const FeatureMap& image = request_.image;
  const auto number = [&](std::int64_t at) {
    return static_cast<float>(static_cast<unsigned char>(record[at]));
  };
  for (std::int64_t place = 0; place < image.places(); ++place) {
    for (std::int64_t c = 0; c < image.channels; ++c) {
      const float value = number(request_.targets + c * image.places() + place);
      words[place * image.channels + c] = std::bit_cast<std::int32_t>(value / 127.5F - 1.0F);
    }
  }
  for (std::int64_t target = 0; target < request_.targets; ++target)
    words[image.numbers() + target] = std::bit_cast<std::int32_t>(number(target));
}

// The patterns of classes are drawn as if they were samples' of a step that never comes. Where each
// place has a label, squares of kSquare places share one, and a class is a colour.
void Batches::draw_image(std::uint32_t step, std::uint32_t index, std::int32_t* words) const {
  constexpr std::uint32_t kPatterns = 0xffffffff;
  constexpr std::int64_t kSquare = 4;
  const FeatureMap& image = request_.image;
  const auto block = [this](std::int64_t number, std::uint32_t of, std::uint32_t at) {
    return philox4x32_10(PhiloxBlock{{static_cast<std::uint32_t>(number), of, at, kImageStream}},
                         request_.seed);
  };
  const auto uniform = [](const PhiloxBlock& drawn) {
    return static_cast<float>(drawn.word[0]) / 2147483648.0F - 1.0F;
  };
  const bool of_places = request_.targets > 1;
  const auto label_at = [&](std::int64_t place) {
    // Squares are drawn instead of places, so that neighbours agree as they do in real maps.
    const std::int64_t row = place / image.width / kSquare, column = place % image.width / kSquare;
    const std::int64_t square = of_places ? row * image.width + column : 0;
    const auto drawn = static_cast<std::int64_t>(block(square, index, step).word[1]);
    return static_cast<std::uint32_t>(drawn % request_.vocabulary);
  };
  for (std::int64_t place = 0; place < image.places(); ++place) {
    const std::uint32_t label = label_at(place);
    for (std::int64_t c = 0; c < image.channels; ++c) {
      const std::int64_t number = place * image.channels + c;
      const float pattern = uniform(block(of_places ? c : number, label, kPatterns));
      // Pattern and noise have the same range: the class can be learnt, but not read off a single
      // number.
      words[number] = std::bit_cast<std::int32_t>(pattern + uniform(block(number, index, step)));
    }
    if (of_places)
      words[image.numbers() + place] = std::bit_cast<std::int32_t>(static_cast<float>(label));
  }
  if (!of_places) {
    const auto label = static_cast<float>(label_at(0));
    words[image.numbers()] = std::bit_cast<std::int32_t>(label);
  }
}

// Three tokens in four follow from the one before, so that there is something to learn.
void Batches::draw(std::uint32_t step, std::uint32_t index, std::int32_t* tokens) const {
  // Masked, the last token hides others.
  const std::int64_t vocabulary = request_.vocabulary - (request_.masked ? 1 : 0);
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
