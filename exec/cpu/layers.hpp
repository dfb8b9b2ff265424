// The table of layer kinds that have kernels on the CPU, each in a file of its own as
// exec/cpu/layer_norm.cpp: what makes its kernels ready, and F, I and W apart, in the words of
// plan/model/layer_tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/cpu/workbench.hpp"
#include "exec/device/backend.hpp"
#include "exec/training/philox.hpp"
#include "plan/model/model.hpp"

namespace weir::cpu {

// Of the numbers that the pass draws at this place of its layer.
[[nodiscard]] inline DropoutMask mask_of(const LayerCall& call, double probability,
                                         DropoutSite site) {
  const DropoutCounter& p = call.dropout;
  return dropout_mask(probability, p.seed, p.step, p.microbatch, p.layer, site);
}

// A sample's tokens, and its target after the last.
[[nodiscard]] inline const std::int32_t* sample_tokens(const LayerCall& call, std::int64_t sample) {
  return call.tokens + sample * call.sample_words;
}

void prepare(const EmbeddingShape& shape, std::int64_t batch, std::int64_t seq_length,
             Workbench& on);
void forward(const EmbeddingShape& shape, const LayerCall& call, Workbench& on);
void backward_input(const EmbeddingShape& shape, const LayerCall& call, Workbench& on);
void backward_weight(const EmbeddingShape& shape, const LayerCall& call, Workbench& on);

void prepare(const TransformerShape& shape, std::int64_t batch, std::int64_t seq_length,
             Workbench& on);
void forward(const TransformerShape& shape, const LayerCall& call, Workbench& on);
void backward_input(const TransformerShape& shape, const LayerCall& call, Workbench& on);
void backward_weight(const TransformerShape& shape, const LayerCall& call, Workbench& on);

void prepare(const NormShape& shape, std::int64_t batch, std::int64_t seq_length, Workbench& on);
void forward(const NormShape& shape, const LayerCall& call, Workbench& on);
void backward_input(const NormShape& shape, const LayerCall& call, Workbench& on);
void backward_weight(const NormShape& shape, const LayerCall& call, Workbench& on);

void prepare(const CellShape& cell, std::int64_t batch, std::int64_t seq_length, Workbench& on);
void forward(const CellShape& cell, const LayerCall& call, Workbench& on);
void backward_input(const CellShape& cell, const LayerCall& call, Workbench& on);
void backward_weight(const CellShape& cell, const LayerCall& call, Workbench& on);

void prepare(const HeadShape& shape, std::int64_t batch, std::int64_t seq_length, Workbench& on);
void logits(const HeadShape& shape, const LayerCall& call, Workbench& on, float* to);
void forward(const HeadShape& shape, const LayerCall& call, Workbench& on);
void backward_input(const HeadShape& shape, const LayerCall& call, Workbench& on);
void backward_weight(const HeadShape& shape, const LayerCall& call, Workbench& on);

}  // namespace weir::cpu
