// Activation memory of GPT blocks as Korthikanti et al. count it ("Reducing Activation
// Recomputation in Large Transformer Models", 2022, arXiv 2205.05198): 16-bit numbers, one-byte
// dropout masks, an MLP of four times the width. Forecasts count the tensors that this project's
// executor keeps (plan/model/layer_tensors); these formulas are the paper's, to hold them against,
// and what `weir reproduce` is checked by. Whole bytes, rounded up.
//
// The head count does not change with t in the paper's terms: a is the model's, not a device's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/schedule/schedule.hpp"
#include "plan/words/units.hpp"

namespace weir {

struct KorthikantiBlock {
  std::int64_t s = 0;  // tokens a sample
  std::int64_t b = 0;  // samples a micro-batch
  std::int64_t h = 0;  // hidden
  std::int64_t a = 0;  // attention heads
  std::int64_t t = 1;  // tensor-parallel size
};

// Per layer and micro-batch; the rows of the paper's table 2.
// No parallelism (equation 1): s b h (34 + 5 a s / h).
[[nodiscard]] Bytes korthikanti_whole(const KorthikantiBlock& block);
// Tensor parallelism: s b h (10 + 24 / t + 5 a s / (h t)).
[[nodiscard]] Bytes korthikanti_tensor(const KorthikantiBlock& block);
// Tensor and sequence parallelism: s b h / t (34 + 5 a s / h).
[[nodiscard]] Bytes korthikanti_sequence(const KorthikantiBlock& block);
// Tensor parallelism and selective re-materialisation: s b h (10 + 24 / t).
[[nodiscard]] Bytes korthikanti_tensor_selective(const KorthikantiBlock& block);
// All three: 34 s b h / t.
[[nodiscard]] Bytes korthikanti_sequence_selective(const KorthikantiBlock& block);
// Full re-materialisation: 2 s b h.
[[nodiscard]] Bytes korthikanti_full(const KorthikantiBlock& block);

// Section 4.3, the rest, with sequence parallelism, per micro-batch. Of the stage that has the
// embedding, its dropout mask: s b h / t. Of the stage that has the head, the input of the last
// norm and of the projection, and the logits in fp32: 4 s b h / t (1 + v / h).
[[nodiscard]] Bytes korthikanti_embedding(const KorthikantiBlock& block);
[[nodiscard]] Bytes korthikanti_head(const KorthikantiBlock& block, std::int64_t vocabulary);

// Section 4.2.3, without its average over stages: per rank, the most that is held at once where a
// micro-batch leaves stage_bytes[s] on global stage s (replicas included) from its F to the end of
// its W or B. The order of the schedule alone decides it; 1F1B's first rank gives the paper's s b h
// L / t (34 + 5 a s / h), interleaved with m chunks a rank its factor 1 + (p - 1) / (p m).
[[nodiscard]] std::vector<Bytes> peak_held(const Schedule& schedule,
                                           std::span<const Bytes> stage_bytes);

}  // namespace weir
