// The training data: which tokens sample j of step t holds. It depends on (seed, step, sample)
// alone, never on how the mini-batch is cut into micro-batches or the model into stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace weir {

class Batches {
 public:
  // Bytes of `data` as tokens (needs vocabulary >= 256), or, without it, a seeded stream in which
  // three tokens of four follow from the one before by a fixed rule and the fourth is random:
  // something to learn, and a floor to it. Throws InputError when the file is unreadable or shorter
  // than a sample.
  Batches(const std::optional<std::filesystem::path>& data, std::int64_t vocabulary,
          std::int64_t seq_length, std::uint64_t seed);

  // Writes seq_length + 1 tokens: inputs, and each input's target one further on.
  void sample(std::uint32_t step, std::uint32_t index, std::int32_t* tokens) const;

 private:
  std::string text_;
  std::int64_t vocabulary_;
  std::int64_t seq_length_;
  std::uint64_t seed_;
};

}  // namespace weir
