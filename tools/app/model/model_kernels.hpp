// `model --kernels`: what the CUDA executor launches in a step, and how long a GPU needs for it at
// least.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "costmodel/layers/executor_kernels.hpp"
#include "plan/job/cluster.hpp"
#include "plan/model/model.hpp"

namespace weir::app {

struct ModelKernels {
  std::string model;
  Device device;
  ExecutorStep step;
  std::vector<KernelWork> kernels;

  [[nodiscard]] Seconds least_time(const KernelWork& kernel) const;  // of one call
  [[nodiscard]] bool bound_by_memory(const KernelWork& kernel) const;
  // Of all calls together: nothing overlaps.
  struct Sums {
    Flops flops{0};
    Bytes bytes{0};
    Seconds time{0};
    std::int64_t calls = 0;
  };
  [[nodiscard]] Sums sums() const;
  [[nodiscard]] double tokens_per_second() const;  // at most
};

// Throws MissingComponent where the executor has no kernels for a layer, UsageError for a format or
// a device that it does not compute in.
[[nodiscard]] ModelKernels model_kernels(const Model& model, const ExecutorStep& step,
                                         Device device);
// weir.model_kernels/1
[[nodiscard]] nlohmann::ordered_json to_json(const ModelKernels& result);

}  // namespace weir::app
