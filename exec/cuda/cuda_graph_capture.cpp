// Captures a step on a stream and launches it again as one graph.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cuda_graph_capture.hpp"

namespace weir {

// A capture that an error cut short must be ended, or the stream takes no other work; and its error
// is not that of the next launch.
CudaGraphCapture::~CudaGraphCapture() {
  if (exec_) return;
  if (capturing_) {
    cudaGraph_t broken = nullptr;
    static_cast<void>(cudaStreamEndCapture(origin_, &broken));
    if (broken != nullptr) release_graph(broken);
  }
  static_cast<void>(cudaGetLastError());
}

// Thread-local: one thread launches the whole step, and what other threads of the process do is
// none of its business.
void CudaGraphCapture::begin() {
  CUDA_CHECK(cudaStreamBeginCapture(origin_, cudaStreamCaptureModeThreadLocal));
  capturing_ = true;
}

void CudaGraphCapture::end() {
  cudaGraph_t captured = nullptr;
  capturing_ = false;  // ended even when the call fails
  CUDA_CHECK(cudaStreamEndCapture(origin_, &captured));
  const UniqueHandle<cudaGraph_t, release_graph> graph(captured);
  cudaGraphExec_t exec = nullptr;
  CUDA_CHECK(cudaGraphInstantiate(&exec, graph.get(), 0));
  exec_ = UniqueHandle<cudaGraphExec_t, release_graph_exec>(exec);
  CUDA_CHECK(cudaGraphUpload(exec, origin_));  // so that the first launch is as quick as the others
}

void CudaGraphCapture::replay() { CUDA_CHECK(cudaGraphLaunch(exec_.get(), origin_)); }

}  // namespace weir
