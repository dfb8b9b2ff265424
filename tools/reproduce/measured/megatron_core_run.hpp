// Jobs of NeMo and Megatron-Bridge, whose sources all state a layout of Megatron-Core's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/reproduce/measured/measured_run.hpp"
#include "tools/reproduce/measured/shapes.hpp"

namespace weir {

struct MegatronCoreJob {
  std::string model;  // as known_decoder() has it
  std::string cluster;
  int gpus = 1;
  std::int64_t sequence = 0;
  int tp = 1, pp = 1, cp = 1, vpp = 1;
  int micro_batch_size = 1;
  int microbatches = 0;  // 0: what the mini-batch leaves
  int global_batch = 0;  // 0: as the micro-batches make it
  Fp8Recipe fp8 = Fp8Recipe::none;
  int zero = 1;  // the distributed optimizer; 3: Megatron-FSDP
  bool recompute = false;
};

// Interleaved where vpp > 1, sequence parallel where tp > 1, gradients reduced while the last
// backward runs, fused attention. A number of layers that the stages do not divide is made up by
// the embedding and the head, a layer each (account_for_embedding_in_pipeline_split and
// account_for_loss_in_pipeline_split). What cannot be is said in `unforeseen`.
[[nodiscard]] MeasuredRun megatron_core_run(const MegatronCoreJob& job, DecoderShelf& shelf);

}  // namespace weir
