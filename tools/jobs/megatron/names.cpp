// Sizes by the names of forks and of other tools: ModelLink and MindSpeed-LLM
// (modellink/training/arguments.py), Hugging Face's, and Megatron-LM's of 2020.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include "tools/jobs/megatron/import.hpp"

namespace weir {

void take_other_names(Arguments& a) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kOthers{
      {{"moe-intermediate-size", "moe-ffn-hidden-size"},
       {"expert-intermediate-size", "moe-ffn-hidden-size"},
       {"shared-expert-intermediate-size", "moe-shared-expert-intermediate-size"},
       {"n-routed-experts", "num-experts"},
       {"num-moe-experts", "num-experts"},
       {"num-experts-per-tok", "moe-router-topk"},
       {"moe-topk", "moe-router-topk"},
       {"multi-head-latent-attention", "multi-latent-attention"},
       {"qk-nope-head-dim", "qk-head-dim"},
       {"qk-rope-head-dim", "qk-pos-emb-head-dim"},
       {"head-dim", "kv-channels"},
       {"intermediate-size", "ffn-hidden-size"},
       {"num-hidden-layers", "num-layers"},
       {"encoder-seq-length", "seq-length"},
       {"max-seq-len", "seq-length"},
       {"rms-norm-eps", "norm-epsilon"},
       {"model-parallel-size", "tensor-model-parallel-size"},
       {"batch-size", "micro-batch-size"},
       {"fp8", "fp8-format"},  // the variables' names, in dumps and in YAML
       {"fp4", "fp4-format"}}};
  for (const auto& [other, name] : kOthers) a.alias(other, name);
}

}  // namespace weir
