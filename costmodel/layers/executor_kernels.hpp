// What the CUDA executor (exec/cuda) launches in a step of one micro-batch, kernel by kernel: the
// work that each cannot do without. Sizes are those of plan/model/layer_tensors, the list that the
// executor allocates by.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/job/cluster.hpp"
#include "plan/job/optimizer.hpp"
#include "plan/model/model.hpp"
#include "plan/words/dtype.hpp"
#include "plan/words/units.hpp"

namespace weir {

struct KernelWork {
  std::string layer;       // its kind
  std::string action;      // F, B or OPTIMIZER
  std::string name;        // of our kernels as profilers show it; of libraries' what they make
  std::int64_t calls = 0;  // in the step
  Flops flops{0};          // of one call, in matrix units; of element-wise work none
  Bytes bytes{0};          // of one call: what it reads and writes, each number once
};

struct ExecutorStep {
  std::int64_t seq_length = 0, batch = 1;  // tokens of a sample, samples of the micro-batch
  Dtype dtype = Dtype::fp32;
  OptimizerKind optimizer = OptimizerKind::adamw;
};

// In the order of the step; kernels of equal layers are one row. Epilogues of products are fused
// where the executor asks for it. Precondition: exec/training/trainable's require_kernels(model,
// cuda) throws nothing.
[[nodiscard]] std::vector<KernelWork> executor_kernels(const Model& model,
                                                       const ExecutorStep& step);

// Roofline (Williams et al., CACM 2009): the longer of the bytes at the memory's rate and the FLOPs
// at the matrix units', both as the data sheet has them, so that nothing can be faster.
[[nodiscard]] Seconds least_time(const KernelWork& kernel, const Device& device, Dtype dtype);

}  // namespace weir
