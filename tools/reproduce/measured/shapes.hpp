// Models that measured runs name: their shapes as the configurations of their sources have them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "plan/model/model.hpp"

namespace weir {

// Decoders of equal blocks. GPT: layer norms with biases, GELU, learned positions, a tied head;
// Llama: RMS norms without biases, SwiGLU, rotary positions, a head of its own.
struct DecoderSizes {
  std::int64_t layers = 0, hidden = 0, heads = 0, vocabulary = 0;
  std::int64_t kv_heads = 0;  // 0: as heads
  std::int64_t ffn = 0;       // 0: 4 x hidden
  bool llama = false;
  bool tied = true;
  bool relu = false;  // OPT
  auto operator<=>(const DecoderSizes&) const = default;
};
[[nodiscard]] Model decoder_of(const DecoderSizes& sizes, std::int64_t sequence,
                               AttentionKind attention);

// Makes each model once.
class DecoderShelf {
 public:
  [[nodiscard]] std::shared_ptr<const Model> get(const DecoderSizes& sizes, std::int64_t sequence,
                                                 AttentionKind attention);

 private:
  std::map<std::tuple<DecoderSizes, std::int64_t, AttentionKind>, std::shared_ptr<const Model>>
      made_;
};

// By the name in capitals without spaces, "-" and "_": "LLAMA3.170B", "GPT3175B". Meta's papers on
// Llama 2 and 3 (arXiv:2307.09288, arXiv:2407.21783), Brown et al. (arXiv:2005.14165), and NeMo's
// gpt3 configurations for 5B and 20B.
[[nodiscard]] const DecoderSizes* known_decoder(const std::string& name);

}  // namespace weir
