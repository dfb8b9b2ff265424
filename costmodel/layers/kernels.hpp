// How long a GPU takes for a layer's kernels: each by its rate (costmodel/layers/kernel_rates),
// together never less than the host needs to launch them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "costmodel/layers/kernel_rates.hpp"
#include "costmodel/layers/layer_time.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
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

// Of one pass of a layer: its kernels on the device, how many they are, of them those that the host
// launches one by one beside the graphs that a plan has, the graphs' own launches with them; and
// what of the device's time grows with the square of a sequence's length.
struct PassKernels {
  Seconds device{0}, squared{0};
  double kernels = 0, launched = 0;
};
struct LayerKernels {
  PassKernels f, i, w;
};
// Of a layer as kernel_times() has it.
[[nodiscard]] LayerKernels layer_kernels(const Layer& layer, const Plan& plan, const Device& device,
                                         const Stack& stack, std::int64_t parameters);
// What a pass takes whose kernels the host launches, as many as are said.
[[nodiscard]] Seconds launched_time(Seconds device, double launches, const Device& device_kind,
                                    const StackTime& stack);

// The kernels of a layer on one device of a split, for a micro-batch of `batch` samples.
// `parameters` are the device's of this layer, whose gradients the stack adds up. Precondition:
// device.kernels; a layer with a shape.
[[nodiscard]] LayerTime kernel_times(const Layer& layer, std::int64_t seq_length, Dtype dtype,
                                     const Split& split, int batch, const Device& device,
                                     const Stack& stack = {}, std::int64_t parameters = 0);

}  // namespace weir
