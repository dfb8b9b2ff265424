// The rows of the Zero Bubble paper, and its schedules with the times it profiled.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tools/reproduce/pipeline.hpp"
#include "tools/reproduce/published.hpp"

namespace weir {

struct ZeroBubbleRow {
  PublishedRow cells;
  std::string name;
  int layers = 0, heads = 0, hidden = 0, sequence = 0;
  int p = 1, b = 1, m = 1;
  EqualStage times;
  // The first and the last stage have one layer fewer, for the embedding and the head.
  [[nodiscard]] int layers_per_stage() const { return (layers + 2) / p; }
};
[[nodiscard]] std::vector<ZeroBubbleRow> zero_bubble_rows(const Publications& published);

// 1F1B-I ("interleaved-1f1b") has one layer a chunk.
[[nodiscard]] Schedule zero_bubble_schedule(const ZeroBubbleRow& row, const std::string& name);
[[nodiscard]] CostTable zero_bubble_costs(const ZeroBubbleRow& row, const Schedule& schedule);

}  // namespace weir
