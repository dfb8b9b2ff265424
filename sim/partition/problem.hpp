// A chain of layers to be cut into stages, and what its stages load: the devices that hold them and
// the links that their messages take. Several stages may share a device (interleaved, V), and a
// stage may stand on several (bidirectional), so that what is to be evened out are devices and
// links, not stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/schedule/schedule.hpp"

namespace weir {

// cut_ns[s - 1][l]: how long the messages of one micro-batch keep the link between stages s - 1 and
// s, in the busier direction, where stage s begins with layer l. Empty: boundaries cost nothing.
// Boundaries of equal times share them: thousands of stages of a model of many layers have few
// links.
class CutTimes {
 public:
  void push_back(std::vector<std::int64_t> by_layer) {
    row_.push_back(rows_.size());
    rows_.push_back(std::move(by_layer));
  }
  void push_back_like(std::size_t boundary) { row_.push_back(row_[boundary]); }

  [[nodiscard]] bool empty() const { return row_.empty(); }
  [[nodiscard]] std::size_t size() const { return row_.size(); }
  [[nodiscard]] const std::vector<std::int64_t>& operator[](std::size_t boundary) const {
    return rows_[row_[boundary]];
  }
  // Those that differ, each once.
  [[nodiscard]] const std::vector<std::vector<std::int64_t>>& rows() const { return rows_; }

 private:
  std::vector<std::vector<std::int64_t>> rows_;
  std::vector<std::size_t> row_;  // by boundary
};

// Bytes, in the terms that grow with a stage's layers.
struct PartitionMemory {
  std::vector<std::int64_t> held;       // by layer: from step to step
  std::vector<std::int64_t> kept;       // by layer: of each micro-batch in flight
  std::vector<std::int64_t> in_flight;  // by stage: micro-batches at its peak
  std::vector<std::int64_t> capacity;   // by device: what its layers may take
};

struct PartitionProblem {
  int stages = 1;
  // By kind of device, then layer: the time of one micro-batch's F and B, ns.
  std::vector<std::vector<std::int64_t>> layer_ns;
  std::vector<std::vector<int>> devices;  // by stage: who holds it
  std::vector<int> kinds;                 // by device: its row of layer_ns
  CutTimes cut_ns;
  std::vector<std::vector<int>> links;  // by boundary: the links that its messages take
  std::optional<PartitionMemory> memory;

  [[nodiscard]] int layers() const { return static_cast<int>(layer_ns.front().size()); }
};

// Every stage on a device of its own, all devices equal.
[[nodiscard]] PartitionProblem chain_problem(std::span<const std::int64_t> layer_ns, int stages,
                                             CutTimes cut_ns = {});
// Stages on ranks as the shape places them; a boundary within a rank takes no link. `layer_ns` has
// one row, for all ranks, or one for each.
[[nodiscard]] PartitionProblem placed_problem(std::vector<std::vector<std::int64_t>> layer_ns,
                                              const ScheduleShape& shape, CutTimes cut_ns = {});

// sums[n]: of the first n values.
[[nodiscard]] std::vector<std::int64_t> running_sum(const std::vector<std::int64_t>& values);

// The time of the busiest device or link for one micro-batch (of each replica); nullopt: a device
// holds more than its capacity. Precondition: boundaries ascend within the layers.
[[nodiscard]] std::optional<std::int64_t> slowest_ns(const PartitionProblem& problem,
                                                     std::span<const int> boundaries);

}  // namespace weir
