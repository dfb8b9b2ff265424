// The standard placements of stages on ranks.
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/schedule.hpp"

#include <algorithm>

namespace weir {

ScheduleShape looped_shape(std::int32_t ranks, std::int32_t chunks, std::int32_t microbatches) {
  ScheduleShape shape{
      .ranks = ranks, .stages = ranks * chunks, .microbatches = microbatches, .rank_of_stage = {}};
  for (std::int32_t stage = 0; stage < shape.stages; ++stage)
    shape.rank_of_stage.push_back(Rank{stage % ranks});
  return shape;
}

ScheduleShape v_shape(std::int32_t ranks, std::int32_t microbatches) {
  ScheduleShape shape{
      .ranks = ranks, .stages = 2 * ranks, .microbatches = microbatches, .rank_of_stage = {}};
  for (std::int32_t stage = 0; stage < ranks; ++stage) shape.rank_of_stage.push_back(Rank{stage});
  for (std::int32_t stage = 0; stage < ranks; ++stage)
    shape.rank_of_stage.push_back(Rank{ranks - 1 - stage});
  return shape;
}

ScheduleShape bidirectional_shape(std::int32_t ranks, std::int32_t microbatches) {
  ScheduleShape shape{.ranks = ranks,
                      .stages = ranks,
                      .microbatches = microbatches,
                      .replicas = 2,
                      .rank_of_stage = {}};
  for (std::int32_t stage = 0; stage < ranks; ++stage) shape.rank_of_stage.push_back(Rank{stage});
  for (std::int32_t stage = 0; stage < ranks; ++stage)
    shape.rank_of_stage.push_back(Rank{ranks - 1 - stage});
  return shape;
}

ScheduleShape sharded_shape(std::int32_t ranks, std::int32_t microbatches, Vocabulary vocabulary) {
  ScheduleShape shape = looped_shape(ranks, 1, microbatches);
  shape.vocabulary = vocabulary;
  for (std::int32_t rank = 0; rank < shape.shards(); ++rank)
    shape.rank_of_stage.push_back(Rank{rank});
  return shape;
}

std::vector<std::int32_t> peak_in_flight(const Schedule& schedule) {
  std::vector<std::int32_t> peaks;
  for (const auto& order : schedule.order) {
    std::int32_t now = 0, most = 0;
    for (const Action& action : order) {
      if (schedule.shape.is_shard(action.stage)) continue;
      if (action.kind == ActionKind::F) most = std::max(most, ++now);
      if (action.kind == ActionKind::B || action.kind == ActionKind::W) --now;
    }
    peaks.push_back(most);
  }
  return peaks;
}

}  // namespace weir
