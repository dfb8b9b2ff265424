// The link between ranks, from the transfers of a measured run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "traces/trace.hpp"

namespace weir {

struct TransferFit {
  Link link;
  int messages = 0;            // observed; 0: `start` is given back
  int sizes = 0;               // different ones among them
  double median_residual = 0;  // median |measured - fitted| / measured
};

// Through the times of messages as fit_link puts it (costmodel/links/link_fit). One size cannot
// tell latency from bandwidth: `start` keeps its latency where that is less than half the median
// time, else its bandwidth, and the other takes what is left. Precondition: the trace is of this
// plan, and its receives span the transfer without waiting for either end.
[[nodiscard]] TransferFit fit_transfers(const ResolvedPlan& loaded, const Trace& measured,
                                        const Link& start);

}  // namespace weir
