// Decoders layer by layer.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/decoder.hpp"

#include <fmt/format.h>

namespace weir {

Decoder usual_decoder(const EmbeddingShape& embedding, const TransformerShape& block,
                      std::int64_t blocks) {
  return {
      .embedding = embedding,
      .block = block,
      .blocks = blocks,
      .norm = NormShape{block.hidden, block.norm, block.norm_epsilon},
      .head = HeadShape{
          .vocabulary = embedding.vocabulary, .hidden = embedding.hidden, .tied = embedding.tied}};
}

Model decoder_model(const Decoder& decoder) {
  Model model;
  model.max_positions = decoder.embedding.positions;
  model.layers.push_back({"embedding", decoder.embedding, ""});
  for (std::int64_t i = 0; i < decoder.blocks; ++i)
    model.layers.push_back({fmt::format("block.{}", i),
                            i < decoder.first_blocks ? decoder.first_block : decoder.block, ""});
  model.layers.push_back({"norm", decoder.norm, ""});
  model.layers.push_back({"head", decoder.head, ""});
  return model;
}

Model decoder_model(const Decoder& decoder, std::int64_t seq_length) {
  Model model = decoder_model(decoder);
  model.family = "layers";
  model.seq_length = seq_length;
  return model;
}

}  // namespace weir
