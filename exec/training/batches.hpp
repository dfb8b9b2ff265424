// The training data: which tokens sample j of step t holds. It depends on (seed, step, sample) and
// the size of the mini-batch alone, never on how that is cut into micro-batches or the model into
// stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/model/cell_shape.hpp"

namespace weir {

// The whole file, which may be read again and by several processes: a pipe's bytes come once.
// Throws InputError for a pipe, and as read_bytes (plan/text/bytes_file).
[[nodiscard]] std::string read_data(const std::filesystem::path& file);

struct BatchRequest {
  std::vector<std::filesystem::path> files;  // any, as bytes; none: seeded synthetic tokens
  std::int64_t vocabulary = 0;
  std::int64_t seq_length = 0;
  FeatureMap image = {};  // samples are images of so many numbers, with a label below `vocabulary`
  std::int64_t targets = 1;  // labels of an image: one, or one for each place
  bool masked = false;       // samples are masked tokens (plan/model/sample)
  // Of masked tokens: the words of a file's samples, where it holds labels; empty where it is read
  // as bytes.
  std::function<std::vector<std::int32_t>(const std::filesystem::path& file)> labelled = {};
  std::uint64_t seed = 0;
  std::int64_t samples = 1;  // of a mini-batch, all replicas together
  bool shuffled = true;      // false: in the order of the files
};

class Batches {
 public:
  // The bytes of files as tokens (needs vocabulary >= 256), cut into windows of seq_length inputs,
  // and an epoch after the other all of them in an order of its own by the seed. Without a file a
  // seeded stream in which three tokens of four follow from the one before by a fixed rule and the
  // fourth is random: something to learn, and a floor to it. Throws InputError when a file is
  // unreadable or shorter than a sample.
  explicit Batches(BatchRequest request);

  // Masked tokens, where a file has no labels of its own: as BERT hides them, by the seed, step and
  // sample. Of 15 % of the tokens, and one of each sample, the token itself is the label; 8 in 10
  // of those are read as the vocabulary's last token, which no text has, 1 as any, 1 as itself.
  //
  // Images: files are records of a byte for each label and a byte a number, channel by channel and
  // row by row, as CIFAR-10's binary version has them; 0..255 becomes -1..1. Without a file, each
  // class has a pattern of its own, under as much noise.
  // Writes a sample's words, as plan/model/sample has them: seq_length + 1 tokens, inputs and each
  // input's target one further on; masked tokens; or an image.
  void sample(std::uint32_t step, std::uint32_t index, std::int32_t* tokens) const;

  // Places of a step's mini-batch that have a label; absent where every target has one.
  [[nodiscard]] std::optional<std::int64_t> labels(std::uint32_t step) const;

  // Windows of the files; 0 without one. What is left at a file's end is no window.
  [[nodiscard]] std::int64_t windows() const { return windows_; }

 private:
  struct Text {
    std::string bytes;
    std::int64_t windows = 0;
    std::vector<std::int32_t> labelled;  // or these: words of its samples
  };
  void add(const std::filesystem::path& file);
  void add_images(const std::filesystem::path& file);
  void draw(std::uint32_t step, std::uint32_t index, std::int32_t* tokens) const;
  void hide(std::uint32_t step, std::uint32_t index, std::int32_t* words) const;
  void draw_image(std::uint32_t step, std::uint32_t index, std::int32_t* words) const;
  void read_image(const char* record, std::int32_t* words) const;
  [[nodiscard]] std::int64_t record_bytes() const;  // from a window to the next

  BatchRequest request_;
  std::vector<Text> texts_;
  std::int64_t windows_ = 0;
};

// Where `place` of `count` stands in an order of them that `seed` and `epoch` decide: a bijection.
[[nodiscard]] std::int64_t shuffled(std::int64_t place, std::int64_t count, std::uint64_t seed,
                                    std::uint32_t epoch);

}  // namespace weir
