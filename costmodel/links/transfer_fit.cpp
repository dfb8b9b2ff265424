// Fits the link between ranks to a run's receives; where they have but one size, one of latency and
// bandwidth is kept.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/transfer_fit.hpp"

#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "costmodel/links/link_fit.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

Bytes message_bytes(const ResolvedPlan& loaded, const Action& receive) {
  const std::int64_t sample = loaded.stage(receive.stage).message_bytes(receive);
  return Bytes(sample * loaded.plan.micro_batch_size);
}

Link through_one_size(Bytes size, double time, const Link& start) {
  const LinkRegime known = start.at(size);
  const auto bytes = static_cast<double>(size.count());
  if (known.latency.count() < time / 2)
    return {known.latency, BytesPerSecond(bytes / (time - known.latency.count())), {}};
  const double moving = known.bandwidth.count() > 0 ? bytes / known.bandwidth.count() : 0;
  if (moving < time) return {Seconds(time - moving), known.bandwidth, {}};
  return {Seconds(0), BytesPerSecond(bytes / time), {}};
}

double time_over(const Link& link, Bytes size) {
  const LinkRegime regime = link.at(size);
  return regime.latency.count() +
         (regime.bandwidth.count() > 0 ? (size / regime.bandwidth).count() : 0);
}

}  // namespace

TransferFit fit_transfers(const ResolvedPlan& loaded, const Trace& measured, const Link& start) {
  std::vector<TimedMessage> seen;
  std::set<Bytes> sizes;
  for (const Span& span : measured.spans) {
    // A receive of no length found its message there: it tells nothing of the link.
    if (!is_receive(span.action.kind) || span.duration().count() <= 0) continue;
    const Bytes size = message_bytes(loaded, span.action);
    if (size.count() <= 0) continue;
    seen.push_back({size, to_seconds(span.duration())});
    sizes.insert(size);
  }
  TransferFit fit{start};
  if (seen.empty()) return fit;
  // One size cannot tell latency from bandwidth.
  if (const auto several = fit_link(seen)) {
    fit.link = to_link(*several, start.at(*sizes.begin()).latency);
  } else {
    std::vector<double> times;
    for (const TimedMessage& message : seen) times.push_back(message.time.count());
    fit.link = through_one_size(*sizes.begin(), median(std::move(times)), start);
  }
  std::vector<double> residuals;
  for (const TimedMessage& message : seen) {
    residuals.push_back(std::abs(message.time.count() - time_over(fit.link, message.size)) /
                        message.time.count());
  }
  fit.messages = static_cast<int>(seen.size());
  fit.sizes = static_cast<int>(sizes.size());
  fit.median_residual = median(std::move(residuals));
  return fit;
}

}  // namespace weir
