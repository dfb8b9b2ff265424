// Idle accounting. Each rank's step is cut into gaps between its compute spans; a gap knows the
// operation that ended it and when what that operation awaited was sent and was there, and every
// nanosecond of it gets one cause.
// SPDX-License-Identifier: Apache-2.0
#include "traces/metrics.hpp"

#include <algorithm>
#include <cassert>

namespace weir {
namespace {

using Ns = std::int64_t;

// The window of one rank in which a gap can be fill, imbalance, drain or optimizer: borders in
// time.
struct Borders {
  Ns fill_end;     // start of the first B or I
  Ns drain_start;  // end of the last F
  Ns compute_end;  // end of the last compute action before the optimizer
};

class Accounting {
 public:
  Accounting(const Program& program, IndexedView<OperationId, const Span> spans, StepWindow window)
      : program_(program), spans_(spans), begin_(window.start.count()), end_(window.end.count()) {}

  [[nodiscard]] RankMetrics of_lane(const Lane& lane) const {
    RankMetrics metrics;
    const Borders borders = borders_of(lane);
    Ns cursor = begin_;
    for (const OperationId id : lane.operations()) {
      const Span& span = spans_[id];
      // Measured spans may overlap by the clock's grain: time is counted once.
      const Ns start = std::max(span.start.count(), cursor);
      account_gap(metrics, borders, cursor, start, id);
      const Nanoseconds busy(std::max<Ns>(span.end.count() - start, 0));
      metrics.busy += busy;
      if (span.action.kind == ActionKind::R) metrics.rematerialise += busy;
      const Nanoseconds rebuild = std::min(span.rebuild, busy);
      metrics.rematerialise += rebuild;
      if (span.action.kind <= ActionKind::W) metrics.useful += busy - rebuild;
      cursor = std::max(cursor, span.end.count());
    }
    account_gap(metrics, borders, cursor, end_, kNoOperation);
    return metrics;
  }

 private:
  [[nodiscard]] Borders borders_of(const Lane& lane) const {
    Borders borders{end_, begin_, begin_};
    bool backward = false;
    for (const OperationId id : lane.operations()) {
      const Span& span = spans_[id];
      if (is_backward(span.action.kind) && !backward) {
        borders.fill_end = span.start.count();
        backward = true;
      }
      if (span.action.kind == ActionKind::F) borders.drain_start = span.end.count();
      if (span.action.kind != ActionKind::OPTIMIZER) borders.compute_end = span.end.count();
    }
    return borders;
  }

  // Causes of [from, to), the gap before operation `next` (none: before the step's end).
  void account_gap(RankMetrics& metrics, const Borders& borders, Ns from, Ns to,
                   OperationId next) const {
    if (from >= to) return;
    IdleTime& idle = metrics.idle;
    Ns sent = to,
       there = to;  // when the awaited message began to move, and when everything awaited was there
    if (next != kNoOperation) {
      there = from;
      sent = to;
      for (const Dependency& dependency : program_.predecessors(next))
        there = std::max(there, spans_[dependency.before].end.count());
      for (const Dependency& dependency : program_.predecessors(next)) {
        const Span& before = spans_[dependency.before];
        const LaneKind kind = program_.lane_of(dependency.before).kind;
        // A skip's message may have come long before the neighbour's was sent.
        const bool last = kind == LaneKind::receive && before.end.count() == there;
        if (last || kind == LaneKind::reduce) sent = std::min(sent, before.start.count());
      }
      // Order matters: first when all was there, inside the gap, then when it began to move,
      // before.
      there = std::clamp(there, from, to);
      sent = std::clamp(sent, from, there);
    }
    // The gap from its end: the host's (all was there), the message's, and before it a wait for
    // whoever sent it.
    idle.communication += Nanoseconds(there - sent);
    // No message is awaited by an update, and no reduction by anything else.
    if (next != kNoOperation && program_.op(next).action.kind == ActionKind::OPTIMIZER)
      metrics.reduction += Nanoseconds(there - sent);
    idle.host += Nanoseconds(next != kNoOperation ? to - there : 0);
    account_wait(idle, borders, from, next != kNoOperation ? sent : to);
  }

  // [from, to) cut at the borders, in the order of docs/design.md 9: fill, then drain, then
  // imbalance; optimizer after all.
  static void account_wait(IdleTime& idle, const Borders& borders, Ns from, Ns to) {
    const auto take = [&from](Ns until) {
      const Ns amount = std::max<Ns>(until - from, 0);
      from += amount;
      return Nanoseconds(amount);
    };
    idle.fill += take(std::min({to, borders.fill_end, borders.compute_end}));
    idle.imbalance += take(std::min({to, borders.drain_start, borders.compute_end}));
    idle.drain += take(std::min(to, borders.compute_end));
    idle.optimizer += take(to);
  }

  const Program& program_;
  IndexedView<OperationId, const Span> spans_;
  Ns begin_, end_;
};

}  // namespace

StepMetrics step_metrics(const Program& program, const Trace& trace, std::int32_t step) {
  const IndexedView<OperationId, const Span> spans = trace.of_step(step);
  assert(spans.size() == program.size());
  const StepWindow window = trace.steps[static_cast<std::size_t>(step)];
  const Accounting accounting(program, spans, window);
  StepMetrics metrics;
  metrics.step_time = window.end - window.start;
  Nanoseconds busy{0}, ideal{0};
  for (const Rank rank : program.ranks()) {
    const Lane& lane = program.compute_lane(rank);
    metrics.ranks.push_back(accounting.of_lane(lane));
    busy += metrics.ranks.back().busy;
    ideal += metrics.ranks.back().useful + metrics.ranks.back().rematerialise;
    Nanoseconds begin = Nanoseconds::max(), end = Nanoseconds::min();
    for (const OperationId id : lane.operations()) {
      const Span& span = spans[id];
      // A span is of compute actions alone (docs/design.md 8).
      if (span.action.kind == ActionKind::OPTIMIZER) continue;
      begin = std::min(begin, span.start);
      end = std::max(end, span.end);
    }
    if (end > begin) metrics.span = std::max(metrics.span, end - begin);
  }
  const double ranks = static_cast<double>(metrics.ranks.size());
  metrics.ideal = to_seconds(ideal) / ranks;
  if (metrics.step_time.count() > 0) {
    metrics.bubble_fraction =
        1 - to_seconds(busy).count() / ranks / to_seconds(metrics.step_time).count();
  }
  if (metrics.span.count() > 0) {
    metrics.bubble_fraction_span = 1 - metrics.ideal.count() / to_seconds(metrics.span).count();
  }
  return metrics;
}

}  // namespace weir
