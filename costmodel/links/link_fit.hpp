// Latency and bandwidth of a link from measured times of messages: t(S) = latency + S / bandwidth
// (Hockney, Parallel Computing 1994), one pair per range of sizes, because libraries change their
// protocol with the size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "costmodel/links/nccl_tests.hpp"
#include "plan/job/cluster.hpp"

namespace weir {

struct FittedRange {
  Bytes smallest{0}, largest{0};  // of the samples
  Seconds latency{0};
  BytesPerSecond bandwidth{0};  // 0: the time does not grow with the size
  int samples = 0;
  double median_residual = 0;  // median |measured / fitted - 1|
};

struct LinkFit {
  std::vector<FittedRange> ranges;  // ascending, at most three
  // Whether the first range's latency is a message's: the smallest message is at most 1 MiB, and
  // half its time or more is latency. Where only large messages were measured it is but where their
  // line meets the axis.
  bool latency_known = false;
};

// Robust: relative residuals, Huber weights (1964), and outliers count no more than a fifth towards
// the choice of ranges (by the Bayesian information criterion). `factor`: bytes on the link over a
// sample's size. nullopt for fewer than two sizes.
[[nodiscard]] std::optional<LinkFit> fit_link(std::span<const TimedMessage> samples,
                                              double factor = 1);

// As costs and clusters keep it. Where the fit could not tell a latency, messages smaller than the
// measured ones take the `known` one and the rate that leads to the first measured size.
[[nodiscard]] Link to_link(const LinkFit& fit, Seconds known);

}  // namespace weir
