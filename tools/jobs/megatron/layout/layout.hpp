// Megatron-LM's --pipeline-model-parallel-layout: which layers each stage holds, as "Ett|(tt|)*6L".
//
//   layout := stage {"|" stage}     stage := {E | t | m | L}
//
// x*n repeats one letter, (text)*n a text; commas mean nothing. E is the embedding, t a transformer
// block, m a multi-token-prediction block, L the loss with its norm and head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace weir {

struct MegatronLayout {
  std::vector<int> blocks;  // transformer blocks of each stage, in the order of stages
  int predictions = 0;      // multi-token-prediction blocks, on one stage
  int predicting = 0;       // that stage, where there are any
};

// Throws InputError: `file` and `key` are what the message begins with.
[[nodiscard]] MegatronLayout parse_layout(const std::string& text, const std::string& file,
                                          const std::string& key);

// The shortest spelling with runs of t counted: "Et*3|t*4|t*3L", "Et*3|t*4|t*3mL".
[[nodiscard]] std::string to_layout(const MegatronLayout& layout);

}  // namespace weir
