// The numbers of a step, put where captured kernels read them.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/device.cuh"

namespace weir::cuda {
namespace {

__global__ void begin_step_kernel(std::uint32_t step, StepNumbers* numbers) {
  numbers->step = step;
}

}  // namespace

void begin_step(std::uint32_t step, StepNumbers* numbers, cudaStream_t stream) {
  begin_step_kernel<<<1, 1, 0, stream>>>(step, numbers);
  check_launch("begin_step");
}

}  // namespace weir::cuda
