// A step captured as a CUDA graph: one launch replaces the host's launches of every kernel in it. Capture starts on one
// stream; streams that wait for its events join, and must be joined back before the capture ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/cuda_check.hpp"
#include "exec/cuda/unique_handle.hpp"

namespace weir {

inline void release_graph(cudaGraph_t graph) noexcept { CUDA_CHECK_NOEXCEPT(cudaGraphDestroy(graph)); }
inline void release_graph_exec(cudaGraphExec_t graph) noexcept { CUDA_CHECK_NOEXCEPT(cudaGraphExecDestroy(graph)); }

class StepGraph {
 public:
  // Calls `enqueue`, which puts the whole step on `origin` and on streams forked from it and joined back to it.
  template <class Enqueue>
  static StepGraph capture(cudaStream_t origin, Enqueue&& enqueue) {
    CUDA_CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeRelaxed));
    cudaGraph_t graph = nullptr;
    try {
      enqueue();
    } catch (...) {
      static_cast<void>(cudaStreamEndCapture(origin, &graph));  // the capture is invalid already
      if (graph != nullptr) release_graph(graph);
      throw;
    }
    CUDA_CHECK(cudaStreamEndCapture(origin, &graph));
    return StepGraph(graph);
  }

  void launch(cudaStream_t stream) const { CUDA_CHECK(cudaGraphLaunch(exec_.get(), stream)); }
  [[nodiscard]] std::size_t nodes() const {
    std::size_t count = 0;
    CUDA_CHECK(cudaGraphGetNodes(graph_.get(), nullptr, &count));
    return count;
  }

 private:
  explicit StepGraph(cudaGraph_t graph) : graph_(graph) {
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    exec_ = UniqueHandle<cudaGraphExec_t, release_graph_exec>(exec);
  }
  UniqueHandle<cudaGraph_t, release_graph> graph_;
  UniqueHandle<cudaGraphExec_t, release_graph_exec> exec_;
};

}  // namespace weir
