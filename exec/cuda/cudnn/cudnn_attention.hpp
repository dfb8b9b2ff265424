// Attention of bf16 heads by cuDNN's fused kernels: forward with the log-sum-exp of each
// row, and a deterministic backward from it. No dropout: cuDNN's random numbers are not ours
// (exec/training/philox).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/cuda/cudnn/cudnn_graph.hpp"
#include "exec/cuda/cudnn/cudnn_plan.hpp"
#include "exec/cuda/kernels/attention_shape.hpp"

namespace weir::cuda {

// The tensors of the two graphs that lie in memory, by what they hold.
struct AttentionForwardTensors {
  CudnnTensor q, k, v, scale, context, statistics;
  std::optional<CudnnTensor> minus_infinity;  // where queries do not see all keys
  std::optional<CudnnTensor> window;
};
struct AttentionBackwardTensors {
  CudnnTensor q, k, v, scale, one, context, statistics, d_context, row_sums, dq, dk, dv;
  std::optional<CudnnTensor> minus_infinity;
  std::optional<CudnnTensor> window;
};
// Adds the operations of a pass to an empty graph.
[[nodiscard]] AttentionForwardTensors build_forward(const AttentionShape& shape, CudnnGraph& graph);
[[nodiscard]] AttentionBackwardTensors build_backward(const AttentionShape& shape,
                                                      CudnnGraph& graph);

class CudnnAttention {
 public:
  // nullopt: this cuDNN has no such kernels for this shape on this device. Precondition:
  // suits(shape).
  [[nodiscard]] static std::optional<CudnnAttention> make(const AttentionShape& shape,
                                                          const CudnnTarget& target);
  // bf16, no dropout, d at most 128 and a multiple of 8 (which keeps q, k and v 16-byte aligned).
  [[nodiscard]] static bool suits(const AttentionShape& shape);

  [[nodiscard]] std::int64_t workspace_bytes() const;
  void forward(cudnnHandle_t handle, const AttentionForward& call, void* workspace) const;
  void backward(cudnnHandle_t handle, const AttentionBackward& call, void* workspace) const;

 private:
  CudnnAttention(const AttentionShape& shape, const AttentionForwardTensors& f, CudnnPlan fp,
                 const AttentionBackwardTensors& b, CudnnPlan bp);

  AttentionShape shape_;
  AttentionForwardTensors forward_;
  CudnnPlan forward_plan_;
  AttentionBackwardTensors backward_;
  CudnnPlan backward_plan_;
};

}  // namespace weir::cuda
