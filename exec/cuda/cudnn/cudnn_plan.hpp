// How a cuDNN graph is run: an engine that its heuristics propose and that repeats its results bit
// for bit, fixed when the plan is made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/cuda/cudnn/cudnn_descriptor.hpp"

namespace weir::cuda {

// What plans are made for: the device of a handle, or one described by a JSON text of cuDNN's own,
// which needs no device; its plans cannot run.
class CudnnTarget {
 public:
  explicit CudnnTarget(cudnnHandle_t handle) : handle_(handle) {}
  explicit CudnnTarget(const std::string& description);
  [[nodiscard]] cudnnHandle_t handle() const { return handle_; }  // null: described
  [[nodiscard]] const CudnnDescriptor* description() const {
    return described_ ? &*described_ : nullptr;
  }

 private:
  cudnnHandle_t handle_ = nullptr;
  std::optional<CudnnDescriptor> described_;
};

struct CudnnBinding {
  std::int64_t id = 0;   // CudnnTensor::id
  void* data = nullptr;  // device memory; of a scalar, host memory
};

// What runs `graph` on the target and repeats its results bit for bit: engine configurations, best
// first. None: it is not a graph that this version has kernels for there.
[[nodiscard]] std::vector<CudnnDescriptor> deterministic_engines(const CudnnDescriptor& graph,
                                                                 const CudnnTarget& target);

class CudnnPlan {
 public:
  // With the first of the deterministic engines that has what it needs; nullopt: none has.
  [[nodiscard]] static std::optional<CudnnPlan> choose(const CudnnDescriptor& graph,
                                                       const CudnnTarget& target);

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_bytes_; }
  // On the handle's stream; returns before the work is done.
  void execute(cudnnHandle_t handle, std::span<const CudnnBinding> bindings, void* workspace) const;

 private:
  explicit CudnnPlan(CudnnDescriptor plan);
  CudnnDescriptor plan_;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace weir::cuda
