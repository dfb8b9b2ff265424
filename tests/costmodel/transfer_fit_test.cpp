// A link from the transfers of a run.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/transfer_fit.hpp"

#include <gtest/gtest.h>

#include "plan/schedule/generators/generators.hpp"

namespace weir::transfer_fit_test {
namespace {

// Three stages of one layer; the first sends on 1000 bytes a micro-batch, the second `second`.
ResolvedPlan chain(std::int64_t second) {
  Model model;
  for (const std::int64_t bytes : {std::int64_t{1000}, second, std::int64_t{0}}) {
    model.layers.push_back({"l", TimedShape{.boundary = Bytes(bytes)}, ""});
  }
  Plan plan;
  plan.pp = 3;
  plan.microbatches = 4;
  plan.boundaries = {1, 2};
  return derive(plan, model, std::get<Schedule>(make_schedule("1f1b", {3, 1, 4})));
}

// Every message takes 5 us and 1 ns a byte, but the first of each edge (a connection is made) a
// hundred times that.
Trace transfers(const ResolvedPlan& loaded) {
  const Program& program = loaded.program;
  Trace trace;
  trace.ranks = 3;
  trace.steps = {{}};
  for (std::size_t i = 0; i < program.size(); ++i) {
    const auto id = OperationId{i};
    const Lane& lane = program.lane_of(id);
    Span span{id, program.op(OperationId{i}).action, lane.rank, lane.kind, lane.rank};
    if (lane.kind == LaneKind::receive) {
      const Edge& edge = program.edge(lane.edge);
      const auto border = static_cast<std::size_t>(std::min(edge.from.value, edge.to.value));
      const std::int64_t bytes =
          std::get<TimedShape>(loaded.model.layers[border].shape).boundary.count();
      span.end = Nanoseconds((5000 + bytes) * (id == lane.first ? 100 : 1));
    }
    trace.spans.push_back(span);
  }
  return trace;
}

TEST(TransferFit, TwoSizesTellLatencyFromBandwidth) {
  const ResolvedPlan loaded = chain(3000);
  const TransferFit fit = fit_transfers(loaded, transfers(loaded), {});
  EXPECT_NEAR(fit.link.latency.count(), 5e-6, 1e-9);
  EXPECT_NEAR(fit.link.bandwidth.count(), 1e9, 1e6);
  EXPECT_EQ(fit.sizes, 2);
  EXPECT_EQ(fit.messages, 16);  // four micro-batches over two borders, both ways
  EXPECT_NEAR(fit.median_residual, 0, 1e-3);
}

// All messages take 6 us. A latency of 2 us leaves 4 us for 1000 bytes; one of 10 us cannot be, and
// at 1 GB/s the bytes take 1 us of the 6; at 100 MB/s they would take 10 us, so that all of the 6
// us is theirs.
TEST(TransferFit, OneSizeKeepsWhatIsKnown) {
  const ResolvedPlan loaded = chain(1000);
  const Trace trace = transfers(loaded);
  const auto fitted = [&](double latency, double bandwidth) {
    return fit_transfers(loaded, trace, {Seconds(latency), BytesPerSecond(bandwidth), {}}).link;
  };
  EXPECT_NEAR(fitted(2e-6, 1e9).bandwidth.count(), 0.25e9, 1);
  EXPECT_DOUBLE_EQ(fitted(2e-6, 1e9).latency.count(), 2e-6);
  EXPECT_NEAR(fitted(10e-6, 1e9).latency.count(), 5e-6, 1e-12);
  EXPECT_DOUBLE_EQ(fitted(10e-6, 1e8).latency.count(), 0);
  EXPECT_NEAR(fitted(10e-6, 1e8).bandwidth.count(), 1000 / 6e-6, 1);
}

TEST(TransferFit, NothingSeenNothingChanged) {
  const ResolvedPlan loaded = chain(1000);
  const TransferFit fit = fit_transfers(loaded, {}, {Seconds(1), BytesPerSecond(2), {}});
  EXPECT_EQ(fit.messages, 0);
  EXPECT_EQ(fit.link.latency, Seconds(1));
}

}  // namespace
}  // namespace weir::transfer_fit_test
