// 1F1B with the vocabulary divided over the ranks (plan/schedule/shard_passes), as the authors'
// fork of Megatron-LM runs it (sail-sg/VocabularyParallelism@6191c3bf,
// megatron/core/pipeline_parallel/vocab_parallel_schedule.py and interlaced_schedule.py) where it
// has not timed its passes: it then takes B for twice as long as F, and messages for nothing. A
// rank makes T of one micro-batch and S of the next together. Rank k warms up with K - k forwards
// and, behind its first S, one more (vocab-2, one barrier) or two more (vocab-1, two barriers);
// interlaced, of Lin et al., "nnScaler", OSDI 2024, with K / 2 more.
//
//   vocab-2, K = 2, M = 3; stages 2 and 3 are the shards: 2F0 is S of micro-batch 0, 2B0 its T
//     rank 0  0F0 0F1 2F0 0F2 2B0 2F1 0B0 2B1 2F2 0B1 0B2 2B2
//     rank 1  1F0 3F0 1F1 1B0 3B0 3F1 1F2 1B1 3B1 3F2 1B2 3B2
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/schedule/generators/orders.hpp"

namespace weir {
namespace {

// One rank's order, put together action by action.
class VocabularyOrder {
 public:
  VocabularyOrder(Schedule& schedule, Rank rank)
      : order_(schedule.order[rank]),
        stage_{rank.value},
        shard_(schedule.shape.shard(rank)),
        microbatches_(schedule.shape.microbatches) {}

  void forward() {
    if (forwards_ < microbatches_) add(stage_, ActionKind::F, forwards_++);
  }
  void backward() { add(stage_, ActionKind::B, backwards_++); }
  // T of the micro-batch before, and S of the next: M + 1 of them make all.
  void shard_pass() {
    if (passes_ > microbatches_) return;
    if (passes_ > 0) add(shard_, ActionKind::B, passes_ - 1);
    if (passes_ < microbatches_) add(shard_, ActionKind::F, passes_);
    ++passes_;
  }
  // S and T of one micro-batch.
  void synchronous_pass() {
    add(shard_, ActionKind::F, passes_);
    add(shard_, ActionKind::B, passes_++);
  }
  [[nodiscard]] std::int32_t passes() const { return passes_; }

 private:
  void add(Stage stage, ActionKind kind, std::int32_t m) {
    order_.push_back({stage, kind, Microbatch{m}});
  }

  std::vector<Action>& order_;
  const Stage stage_, shard_;
  const std::int32_t microbatches_;
  std::int32_t forwards_ = 0, backwards_ = 0, passes_ = 0;
};

// Where ranks put S within their steady round, from the last rank down: between B and F, or behind
// F. The forward of S comes an F earlier on each rank before; from where it would pass B it goes
// behind F instead (the source's state machine at F = 1, B = 2).
struct ShardPlaces {
  std::vector<bool> behind_f;       // by rank
  std::vector<std::int32_t> ahead;  // by rank: passes between its warm-up and its first B
};

ShardPlaces places(std::int32_t ranks) {
  constexpr std::int32_t kF = 1, kB = 2;
  std::vector<bool> behind{false};  // from the last rank on
  for (std::int32_t offset = 0; std::ssize(behind) < ranks;) {
    if (offset - kF >= -kB) {
      offset -= kF;
      behind.push_back(false);
    } else {
      offset += kB - kF;
      behind.push_back(true);
      behind.push_back(false);
    }
  }
  behind.resize(static_cast<std::size_t>(ranks));
  ShardPlaces made{{behind.rbegin(), behind.rend()}, {}};
  std::vector<std::int32_t> ahead{0};
  for (std::size_t rank = behind.size() - 1; rank-- > 0;) {
    // Behind F on the next rank and before it here is the same pass.
    const bool same = made.behind_f[rank + 1] && !made.behind_f[rank];
    ahead.push_back(ahead.back() + (same ? 0 : 1));
  }
  made.ahead.assign(ahead.rbegin(), ahead.rend());
  return made;
}

std::optional<std::string> refused(const char* name, const ScheduleRequest& request) {
  if (request.chunks != 1) return fmt::format("{} has one stage a rank: v must be 1", name);
  if (request.ranks < 2)
    return fmt::format(
        "{} divides the vocabulary over K ranks: K must be at "
        "least 2",
        name);
  return std::nullopt;
}

ScheduleOrReason overlapped(const char* name, const ScheduleRequest& request, Vocabulary barriers) {
  if (auto reason = refused(name, request)) return *std::move(reason);
  const std::int32_t ranks = request.ranks, m = request.microbatches;
  Schedule schedule = empty_schedule(name, sharded_shape(ranks, m, barriers));
  const bool two = barriers == Vocabulary::two_barriers;
  const ShardPlaces at = places(ranks);
  for (const Rank rank : schedule.order.ids()) {
    const std::int32_t warmup = std::min(ranks - rank.value, m);
    VocabularyOrder order(schedule, rank);
    for (std::int32_t i = 0; i < warmup; ++i) order.forward();
    order.shard_pass();
    order.forward();
    if (two) {
      order.shard_pass();
      order.forward();
    }
    // With one barrier the last T stands alone at the end.
    const auto pass = [&] {
      if (two || order.passes() < m) order.shard_pass();
    };
    for (std::int32_t i = 0; i < at.ahead[rank.position()]; ++i) pass();
    const std::int32_t steady = std::max(0, m - warmup - (two ? 2 : 1));
    for (std::int32_t i = 0; i < m; ++i) {
      order.backward();
      if (!at.behind_f[rank.position()]) pass();
      if (i < steady) order.forward();
      if (at.behind_f[rank.position()]) pass();
    }
    while (order.passes() <= m) order.shard_pass();
  }
  return schedule;
}

}  // namespace

ScheduleOrReason make_vocab_1(const ScheduleRequest& request) {
  return overlapped("vocab-1", request, Vocabulary::two_barriers);
}

ScheduleOrReason make_vocab_2(const ScheduleRequest& request) {
  return overlapped("vocab-2", request, Vocabulary::one_barrier);
}

ScheduleOrReason make_interlaced(const ScheduleRequest& request) {
  if (auto reason = refused("interlaced", request)) return *std::move(reason);
  const std::int32_t ranks = request.ranks, m = request.microbatches;
  Schedule schedule =
      empty_schedule("interlaced", sharded_shape(ranks, m, Vocabulary::synchronous));
  for (const Rank rank : schedule.order.ids()) {
    const std::int32_t behind = ranks - rank.value;  // stages from here on
    const std::int32_t warmup = std::min(ranks * 3 / 2 - rank.value, m);
    const std::int32_t drain = std::min(behind, m);
    const std::int32_t waiting = std::max(0, warmup - drain - (behind - 1) / 2);
    const bool forward_first = rank.value % 2 == ranks % 2;
    VocabularyOrder order(schedule, rank);
    for (std::int32_t i = 0; i < warmup; ++i) order.forward();
    for (std::int32_t i = 0; i < drain; ++i) order.synchronous_pass();
    for (std::int32_t i = 0; i < m - drain; ++i) {
      // The first have no forward beside them, nor have the last.
      const bool steady = i >= waiting && i < waiting + m - warmup;
      if (steady && forward_first) order.forward();
      order.backward();
      if (steady && !forward_first) order.forward();
      order.synchronous_pass();
    }
    for (std::int32_t i = 0; i < drain; ++i) order.backward();
  }
  return schedule;
}

}  // namespace weir
