// The embedding, blocks, norm and head that most language models are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/model/model.hpp"

namespace weir {

struct Decoder {
  EmbeddingShape embedding;
  TransformerShape block;
  std::int64_t blocks = 0;
  TransformerShape first_block;   // of the first blocks where they differ: dense before experts
  std::int64_t first_blocks = 0;  // of all
  NormShape norm;
  HeadShape head;
};

// With a norm like those of the blocks, and a head over the embedding's vocabulary.
[[nodiscard]] Decoder usual_decoder(const EmbeddingShape& embedding, const TransformerShape& block,
                                    std::int64_t blocks);

// Its layers: "embedding", "block.0", ..., "norm", "head". Positions are the embedding's; family
// and sequence length are left to the caller.
[[nodiscard]] Model decoder_model(const Decoder& decoder);
// The same as a layer list would have it.
[[nodiscard]] Model decoder_model(const Decoder& decoder, std::int64_t seq_length);

}  // namespace weir
