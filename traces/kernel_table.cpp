// Kernels summed by name, and actions by what ran in them.
// SPDX-License-Identifier: Apache-2.0
#include "traces/kernel_table.hpp"

#include <algorithm>
#include <map>

namespace weir {
namespace {

using Intervals = std::vector<std::pair<Nanoseconds, Nanoseconds>>;

double share_of(Nanoseconds part, Nanoseconds whole) {
  return whole.count() > 0 ? Seconds(part).count() / Seconds(whole).count() : 0;
}

std::vector<KernelRow> kernel_rows(const KernelTrace& kernels, Nanoseconds total) {
  std::map<std::string, KernelRow> by_name;
  for (const KernelSpan& kernel : kernels.spans) {
    KernelRow& row = by_name[kernel.name];
    ++row.calls;
    row.total += kernel.end - kernel.start;
  }
  std::vector<KernelRow> rows;
  for (auto& [name, row] : by_name)
    rows.push_back({name, row.calls, row.total, share_of(row.total, total)});
  std::ranges::stable_sort(rows, std::ranges::greater(), &KernelRow::total);
  return rows;
}

std::vector<ActionRow> action_rows(const Trace& trace, const KernelTrace& kernels) {
  std::map<std::size_t, Intervals> ran;  // by action
  for (const KernelSpan& kernel : kernels.spans)
    ran[kernel.action].emplace_back(kernel.start, kernel.end);
  std::map<ActionKind, ActionRow> by_kind;
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    if (span.lane != LaneKind::compute) continue;
    ActionRow& row = by_kind[span.action.kind];
    const Intervals& of_span = ran[i];
    row.kind = span.action.kind;
    ++row.actions;
    row.kernels += static_cast<std::int64_t>(of_span.size());
    row.time += span.duration();
    row.idle += uncovered(span.start, span.end, of_span);
  }
  std::vector<ActionRow> rows;
  for (const auto& [kind, row] : by_kind) rows.push_back(row);
  return rows;
}

}  // namespace

double ActionRow::idle_share() const { return share_of(idle, time); }

Nanoseconds uncovered(Nanoseconds start, Nanoseconds end, Intervals intervals) {
  std::ranges::sort(intervals);
  Nanoseconds idle{0}, reached = start;  // all before `reached` is accounted for
  for (const auto& [from, to] : intervals) {
    if (from >= end) break;
    if (from > reached) idle += from - reached;
    reached = std::max(reached, to);
  }
  return idle + std::max(end - reached, Nanoseconds(0));
}

KernelTable tabulate(const Trace& trace, const KernelTrace& kernels, std::size_t rows) {
  KernelTable table;
  for (const KernelSpan& kernel : kernels.spans) table.total += kernel.end - kernel.start;
  table.kernels = kernel_rows(kernels, table.total);
  for (std::size_t i = rows; i < table.kernels.size(); ++i) {
    table.others.calls += table.kernels[i].calls;
    table.others.total += table.kernels[i].total;
    ++table.other_names;
  }
  table.others.share = share_of(table.others.total, table.total);
  table.kernels.resize(std::min(rows, table.kernels.size()));
  table.actions = action_rows(trace, kernels);
  return table;
}

}  // namespace weir
