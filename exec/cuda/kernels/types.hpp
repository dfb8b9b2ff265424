// The words that all kernels share. Kernels are templates over the element type of activations and
// working weights, float or Bf16; whatever is summed or squared is fp32 (losses: double) in
// between. Every sum has one order, given by the shape alone, so the same inputs have the same bits
// on any device and beside any other work.
//
// Nothing a launch is given changes from step to step: a number that does lies in device memory
// (StepNumbers). So a captured graph stays right at every later step. C++17, because nvcc reads it
// too; arrays are device memory, row-major.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "exec/training/philox.hpp"

namespace weir::cuda {

using Bf16 = __nv_bfloat16;

// y = x + beta y, BLAS's beta: zero overwrites, one accumulates.
enum class Beta : std::uint8_t { zero, one };

struct Rows {
  std::int64_t rows = 0, width = 0;
};

// In device memory: what kernels need to know of the step.
struct StepNumbers {
  std::uint32_t step;  // 0-based
};
// Puts the step in its place.
void begin_step(std::uint32_t step, StepNumbers* numbers, cudaStream_t stream);

// A dropout mask whose step is read on the device: `mask.step` is not looked at. `numbers` may be
// null where the mask is not active.
struct StepMask {
  DropoutMask mask;
  const StepNumbers* numbers = nullptr;
};

// A token a row of [batch * seq_length], and its type where there are types.
struct Tokens {
  const std::int32_t* ids;
  std::int64_t batch, seq_length;
  const std::int32_t* types = nullptr;
  [[nodiscard]] WEIR_HOST_DEVICE std::int64_t rows() const { return batch * seq_length; }
};

// A target a row of logits, below 0 where the row has none: it then has no loss. Those of images
// are numbers in fp32, as all of a sample.
struct Targets {
  const std::int32_t* ids;
  std::int64_t rows;
  bool fp32 = false;
};

}  // namespace weir::cuda
