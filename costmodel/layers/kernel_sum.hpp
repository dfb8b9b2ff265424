// What a GPU and its host take for kernels that follow each other, each by its rate
// (costmodel/layers/kernel_rates).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "costmodel/layers/kernel_rates.hpp"
#include "plan/job/cluster.hpp"
#include "plan/words/units.hpp"

namespace weir {

// Kernels that follow each other: the sum of their times, or what the host needs to launch as many,
// where that is more; where the host waits for each, both.
class KernelSum {
 public:
  KernelSum(const Device& device, Dtype dtype, const StackTime& stack = {})
      : device_(device),
        dtype_(dtype),
        launch_(stack.launch.value_or(device.kernels->launch)),
        blocking_(stack.blocking_launches) {}
  KernelSum& matmul(const MatmulShape& shape, ProductForm form = {});
  KernelSum& fused(const FusedCore& core);
  KernelSum& stream(std::int64_t numbers);  // reads and writes together, in the plan's format
  KernelSum& move(double bytes, int kernels = 1);
  KernelSum& steps(double bytes, int kernels);  // that move as much together, each its share
  KernelSum& small(double kernels);             // of next to no work
  // What follows is launched within a CUDA graph, or by the host.
  void in_graph(bool graphed) { in_graph_ = graphed; }
  [[nodiscard]] Seconds time() const;
  [[nodiscard]] Seconds device_time() const { return sum_; }
  [[nodiscard]] double kernels() const { return count_; }
  [[nodiscard]] double outside_graphs() const { return outside_; }

 private:
  void count(double kernels) {
    count_ += kernels;
    if (!in_graph_) outside_ += kernels;
  }

  const Device& device_;
  Dtype dtype_;
  Seconds launch_;
  bool blocking_;
  Seconds sum_{0};
  double count_ = 0, outside_ = 0;
  bool in_graph_ = false;
};

// What a pass takes whose kernels the host launches, as many as are said.
[[nodiscard]] Seconds launched_time(Seconds device, double launches, const Device& device_kind,
                                    const StackTime& stack);

}  // namespace weir
