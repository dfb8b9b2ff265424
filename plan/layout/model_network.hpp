// The network of a model that Weir knows: embedding, blocks, norm and head over named dimensions,
// so that Megatron's tensor parallelism is a layout of it (heads:m, ffn:m, vocab:m), sequence
// parallelism another rule (rows:m), and data and expert parallelism two more (batch:d, slots:d;
// batch:e, experts:e).
//
//   batch    sequences           rows     tokens outside of products   tokens   within them
//   keys     tokens attended to  hidden   the residual stream          heads    of keys and values
//   shard    hidden, of weights as they are kept
//   group    queries a key head  ffn      feed-forward width           vocab    padded
//   experts, slots, places       visits to experts: slots beside the tokens' part, places where a
//                                tensor-parallel group has gathered them
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/layout/network.hpp"
#include "plan/model/model.hpp"
#include "plan/words/dtype.hpp"

namespace weir::layout {

struct NetworkOf {
  std::int64_t seq_length = 0;
  std::int64_t batch = 1;          // sequences of a micro-batch, of all processors
  std::int64_t vocabulary_of = 1;  // the vocabulary is padded to a multiple of this
  // Tokens go to their experts from where their rows are, as under expert parallelism; else from
  // where a tensor-parallel group has gathered them for all products.
  bool experts_apart = false;
  // ZeRO's third stage (Rajbhandari et al., SC 2020): weights lie under the dimension `shard` where
  // they are kept, and are moved to `hidden` where they are read. Those without a hidden dimension
  // are kept whole.
  bool shards = false;
};

// What a vocabulary is padded to a multiple of: the processors that divide it, and where a number
// has 2 bytes rows of 16 bytes, which products like.
[[nodiscard]] std::int64_t padded_to(Dtype dtype, std::int64_t processors);

// Equal blocks in a row are one layer, repeated. Throws std::invalid_argument, naming the layer and
// what of it has no words here.
[[nodiscard]] Network model_network(const Model& model, const NetworkOf& of);

}  // namespace weir::layout
