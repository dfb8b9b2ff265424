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
//   a divided vocabulary stages K..2K-1 are its shards, stage K + k on rank k: their F and B are
//                        the passes S and T             (plan/schedule/shard_passes)
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

// Where the products of the vocabulary are made: by the first and the last stage, or by a shard on
// every rank, whose two passes wait for each other at one or two all-reduces beside the compute, or
// at all of them within it.
enum class Vocabulary : std::uint8_t { whole, one_barrier, two_barriers, synchronous };

struct ScheduleShape {
  std::int32_t ranks = 1;         // K
  std::int32_t stages = 1;        // S = K*v, of one replica
  std::int32_t microbatches = 1;  // M, over all replicas
  std::int32_t replicas =
      1;  // copies of the stages with micro-batches of their own (bidirectional: 2)
  std::int32_t segments =
      1;  // sequence slices a micro-batch; microbatch index = m * segments + slice
  Indexed<Stage, Rank> rank_of_stage;         // size total_stages()
  Vocabulary vocabulary = Vocabulary::whole;  // else of one stage a rank and one replica

  [[nodiscard]] std::int32_t shards() const { return vocabulary == Vocabulary::whole ? 0 : ranks; }
  [[nodiscard]] std::int32_t total_stages() const { return stages * replicas + shards(); }
  [[nodiscard]] std::int32_t units() const { return microbatches * segments; }
  [[nodiscard]] Ids<Stage> all_stages() const { return Ids<Stage>(total_stages()); }
  [[nodiscard]] Rank rank_of(Stage stage) const { return rank_of_stage[stage]; }
  // Of a divided vocabulary: it stands beside the last stage, and has no neighbour.
  [[nodiscard]] bool is_shard(Stage stage) const { return stage.value >= stages * replicas; }
  [[nodiscard]] Stage shard(Rank rank) const { return Stage{stages * replicas + rank.value}; }
  [[nodiscard]] std::int32_t replica_of(Stage stage) const {
    return is_shard(stage) ? 0 : stage.value / stages;
  }
  // The stage of the first replica that it is a copy of.
  [[nodiscard]] Stage original(Stage stage) const {
    return is_shard(stage) ? stage : Stage{stage.value % stages};
  }
  // First and last stage of the replica that `stage` belongs to; a shard is both.
  [[nodiscard]] bool is_first(Stage stage) const {
    return is_shard(stage) || stage.value % stages == 0;
  }
  [[nodiscard]] bool is_last(Stage stage) const {
    return is_shard(stage) || stage.value % stages == stages - 1;
  }
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
[[nodiscard]] ScheduleShape sharded_shape(std::int32_t ranks, std::int32_t microbatches,
                                          Vocabulary vocabulary);

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
// end of W or B; shards' are not counted. The order alone decides it.
[[nodiscard]] std::vector<std::int32_t> peak_in_flight(const Schedule& schedule);

}  // namespace weir
