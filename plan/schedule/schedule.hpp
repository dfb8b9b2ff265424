// A schedule is data: for each rank, the order of its compute actions. No clock, no cost, no
// device.
//
// Generators (plan/schedule/generators/) make one, files bring one, `validate` judges it, `lower`
// turns it into a Program that both engines consume. The shape says how stages sit on ranks:
//   one chunk a rank     stage s on rank s
//   v chunks, looped     stage s on rank s % K          (interleaved 1F1B, BFS)
//   v chunks, V-shaped   0..K-1 down, then K-1..0 up    (ZB-V, DualPipeV, Hanayo)
//   two replicas         replica 1's stage s' = S + s is a copy of stage s, and sits on
//                        rank K-1-s                     (Chimera, DualPipe)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/words/action.hpp"
#include "plan/words/indexed.hpp"
#include "plan/words/units.hpp"

namespace weir {

// The largest schedules that readers take: what is above is a typing error.
inline constexpr std::int32_t kMostStages = 1 << 16;
inline constexpr std::int32_t kMostMicrobatches = 1 << 20;

struct ScheduleShape {
  std::int32_t ranks = 1;         // K
  std::int32_t stages = 1;        // S = K*v, of one replica
  std::int32_t microbatches = 1;  // M, over all replicas
  std::int32_t replicas =
      1;  // copies of the stages with micro-batches of their own (bidirectional: 2)
  std::int32_t segments =
      1;  // sequence slices a micro-batch; microbatch index = m * segments + slice
  Indexed<Stage, Rank> rank_of_stage;  // size stages * replicas

  [[nodiscard]] std::int32_t total_stages() const { return stages * replicas; }
  [[nodiscard]] std::int32_t units() const { return microbatches * segments; }
  [[nodiscard]] Ids<Stage> all_stages() const { return Ids<Stage>(total_stages()); }
  [[nodiscard]] Rank rank_of(Stage stage) const { return rank_of_stage[stage]; }
  [[nodiscard]] std::int32_t replica_of(Stage stage) const { return stage.value / stages; }
  // First and last stage of the replica that `stage` belongs to.
  [[nodiscard]] bool is_first(Stage stage) const { return stage.value % stages == 0; }
  [[nodiscard]] bool is_last(Stage stage) const { return stage.value % stages == stages - 1; }
  // M - 1, or a slice of it.
  [[nodiscard]] bool is_last_microbatch(Microbatch unit) const {
    return unit.value / segments == microbatches - 1;
  }
  bool operator==(const ScheduleShape&) const = default;
};

// One value for each stage and micro-batch (slice) of a shape.
template <class T>
class Cells {
 public:
  Cells() = default;
  explicit Cells(const ScheduleShape& shape, const T& value = T())
      : units_(static_cast<std::size_t>(shape.units())),
        values_(static_cast<std::size_t>(shape.total_stages()) * units_, value) {}
  [[nodiscard]] T& operator()(Stage stage, Microbatch unit) {
    return values_[stage.position() * units_ + unit.position()];
  }
  [[nodiscard]] const T& operator()(Stage stage, Microbatch unit) const {
    return values_[stage.position() * units_ + unit.position()];
  }
  [[nodiscard]] T& operator[](const Action& of) { return (*this)(of.stage, of.microbatch); }
  [[nodiscard]] const T& operator[](const Action& of) const {
    return (*this)(of.stage, of.microbatch);
  }

 private:
  std::size_t units_ = 0;
  std::vector<T> values_;
};

// Standard placements.
[[nodiscard]] ScheduleShape looped_shape(std::int32_t ranks, std::int32_t chunks,
                                         std::int32_t microbatches);
[[nodiscard]] ScheduleShape v_shape(std::int32_t ranks, std::int32_t microbatches);
[[nodiscard]] ScheduleShape bidirectional_shape(std::int32_t ranks, std::int32_t microbatches);

struct Schedule {
  std::string name;
  ScheduleShape shape;
  Indexed<Rank, std::vector<Action>> order;  // kinds F, B, I, W only
  // Per rank, ascending positions p such that order[p] and order[p+1] are one overlapped pair,
  // PyTorch's "(0F1;3B0)OVERLAP_F_B". A hint for executors and a mark in files; the order alone is
  // binding.
  Indexed<Rank, std::vector<std::int32_t>> overlapped;

  bool operator==(const Schedule&) const = default;
};

// Per rank, the most stage-micro-batches (stage-slices) held at once, from the start of F to the
// end of W or B. The order alone decides it.
[[nodiscard]] std::vector<std::int32_t> peak_in_flight(const Schedule& schedule);

}  // namespace weir
