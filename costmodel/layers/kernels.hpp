// How long a GPU takes for a layer's kernels: each by its rate (costmodel/layers/kernel_rates),
// together never less than the host needs to launch them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "costmodel/layers/kernel_sum.hpp"
#include "costmodel/layers/layer_time.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "plan/words/units.hpp"

namespace weir {

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
// The kernels of a layer on one device of a split, for a micro-batch of `batch` samples.
// `parameters` are the device's of this layer, whose gradients the stack adds up. Precondition:
// device.kernels; a layer with a shape.
[[nodiscard]] LayerTime kernel_times(const Layer& layer, std::int64_t seq_length, Dtype dtype,
                                     const Split& split, int batch, const Device& device,
                                     const Stack& stack = {}, std::int64_t parameters = 0);

}  // namespace weir
