// A training step as a CUDA graph: what the launching thread puts on the origin's stream, and on
// streams that join it by events, is captured once and then launched with one call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/cuda/driver/unique_handle.hpp"
#include "exec/device/stream.hpp"

namespace weir {

inline void release_graph(cudaGraph_t graph) noexcept {
  CUDA_CHECK_NOEXCEPT(cudaGraphDestroy(graph));
}
inline void release_graph_exec(cudaGraphExec_t exec) noexcept {
  CUDA_CHECK_NOEXCEPT(cudaGraphExecDestroy(exec));
}

class CudaGraphCapture : public GraphCapture {
 public:
  explicit CudaGraphCapture(cudaStream_t origin) : origin_(origin) {}  // the stream outlives this
  CudaGraphCapture(const CudaGraphCapture&) = delete;
  CudaGraphCapture& operator=(const CudaGraphCapture&) = delete;
  ~CudaGraphCapture() override;

  void begin() override;
  void end() override;
  void replay() override;

 private:
  cudaStream_t origin_;
  bool capturing_ = false;
  UniqueHandle<cudaGraphExec_t, release_graph_exec> exec_;
};

}  // namespace weir
