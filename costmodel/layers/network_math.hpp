// What a network under a layout costs a processor (docs/theory.md 11): the bytes and the time of
// what plan/layout/exchanges derives, by the formulas that forecasts price `--tp`, `--dp` and
// `--ep` with (costmodel/links), and what it holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/job/cluster.hpp"
#include "plan/job/optimizer.hpp"
#include "plan/layout/exchanges.hpp"
#include "plan/words/dtype.hpp"
#include "plan/words/units.hpp"

namespace weir {

[[nodiscard]] Bytes exchanged_bytes(const layout::Exchange& exchange, Dtype dtype);

// The link that processors along these mesh dimensions have. Devices are numbered as the mesh is,
// the last dimension fastest, and fill nodes in order.
[[nodiscard]] Link axes_link(const layout::NetworkLayout& layout, layout::Axes axes,
                             const Cluster& cluster);
// Of `members` processors over a link: costmodel/links/collectives.
[[nodiscard]] Seconds exchange_time(const layout::Exchange& exchange, std::int64_t members,
                                    Dtype dtype, const Link& link);

struct NetworkJob {
  Dtype dtype = Dtype::bf16;
  Optimizer optimizer;
  int micro_batches = 1;
};

// A step's parts on one device; nothing runs beside anything else. Products run at the device's
// peak for the number format, so times compare layouts with each other, not with a forecast.
struct NetworkCost {
  Seconds products{0};
  Seconds exchanges{0};   // of micro-batches; what W gathers again is hidden, as forecasts have it
  Seconds reductions{0};  // of weights' gradients, once a step, and of new weights: one for each
                          // layer of the network, repetitions together, and set of mesh dimensions
  Bytes state{0};         // weights, gradients, what the optimizer keeps
  Bytes kept{0};          // by F of one micro-batch
  [[nodiscard]] Seconds time() const { return products + exchanges + reductions; }
  [[nodiscard]] Bytes memory() const { return state + kept; }
  NetworkCost& operator+=(const NetworkCost& other);
};

// What a step exchanges of a layer's weights, one message for all of a kind: gradients, in fp32,
// and where processors share what the optimizer keeps the new weights. Ascending in axes, then by
// collective.
struct StepReduction {
  layout::Axes axes = 0;
  layout::Collective collective = layout::Collective::all_reduce;
  double elements = 0;
};
[[nodiscard]] std::vector<StepReduction> step_reductions(const layout::LayerShare& share,
                                                         std::int64_t repeat);

// F, I and W of one micro-batch and one repetition: their products, and what they exchange, but for
// what W gathers again.
struct PassTimes {
  Seconds products[3] = {}, exchanges[3] = {};
};
[[nodiscard]] PassTimes pass_times(const layout::LayerShare& share,
                                   const layout::NetworkLayout& layout, const NetworkJob& job,
                                   const Cluster& cluster);

// All costs are sums over layers. Precondition: the device has a rate for the number format.
[[nodiscard]] NetworkCost layer_cost(const layout::LayerShare& share, std::int64_t repeat,
                                     const layout::NetworkLayout& layout, const NetworkJob& job,
                                     const Cluster& cluster);
[[nodiscard]] NetworkCost network_cost(const layout::Network& network,
                                       const layout::NetworkLayout& layout, const NetworkJob& job,
                                       const Cluster& cluster);

}  // namespace weir
