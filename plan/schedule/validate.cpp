// Judges a schedule in two passes: each rank's own order (place, range, once, F before I before W,
// ascending gradients), then a dry run of all ranks together with unlimited buffers, which stops
// where nobody can go on.
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/schedule/shard_passes.hpp"

namespace weir {
namespace {

constexpr std::int32_t kPictureColumns = 8;  // on each side of the culprit
constexpr std::int32_t kPictureRanks = 8;

// The ranks and steps around the culprit, which stands in [brackets].
std::string draw(const Schedule& schedule, Rank rank, std::int32_t position) {
  const auto ranks = static_cast<std::int32_t>(schedule.order.size());
  const std::int32_t first_rank = std::max(0, rank.value - kPictureRanks);
  const std::int32_t last_rank = std::min(ranks, rank.value + kPictureRanks + 1);
  const std::int32_t first = std::max(0, position - kPictureColumns);
  const std::int32_t last = position + kPictureColumns + 1;
  const auto cell = [&](std::int32_t row, std::int32_t column) {
    const auto& order = schedule.order[Rank{row}];
    std::string text = column < static_cast<std::int32_t>(order.size())
                           ? to_string(order[static_cast<std::size_t>(column)])
                           : std::string();
    return row == rank.value && column == position ? fmt::format("[{}]", text) : text;
  };
  std::size_t width = 4;
  for (std::int32_t row = first_rank; row < last_rank; ++row) {
    for (std::int32_t column = first; column < last; ++column)
      width = std::max(width, cell(row, column).size());
  }
  std::string picture = fmt::format("{:>8}", "step");
  for (std::int32_t column = first; column < last; ++column)
    picture += fmt::format(" {:>{}}", column, width);
  for (std::int32_t row = first_rank; row < last_rank; ++row) {
    picture += fmt::format("\n{:>8}", fmt::format("rank {}", row));
    for (std::int32_t column = first; column < last; ++column) {
      picture += fmt::format(" {:>{}}", cell(row, column), width);
    }
  }
  return picture;
}

class Judge {
 public:
  Judge(const Schedule& schedule, const ValidationOptions& options)
      : schedule_(schedule), shape_(schedule.shape), options_(options) {}

  std::optional<ScheduleFault> judge() {
    check_shape();
    if (!fault_) {
      seen_ = Cells<std::uint8_t>(shape_);
      replica_of_unit_.assign(shape_.units(), -1);
      last_gradient_.assign(shape_.total_stages(), -1);
    }
    // Each check counts on what those before it found.
    for (const Rank rank : schedule_.order.ids()) {
      if (!fault_) check_rank(rank);
    }
    if (!fault_) check_complete();
    if (!fault_) dry_run();
    return std::move(fault_);
  }

 private:
  enum Seen : std::uint8_t {
    seen_f = 1,
    seen_b = 2,
    seen_i = 4,
    seen_w = 8,
    done_f = 16,
    done_i = 32
  };

  void fail(Rank rank, std::size_t position, std::string reason) {
    const auto column = static_cast<std::int32_t>(position);
    fault_ = ScheduleFault{rank, column, std::move(reason), draw(schedule_, rank, column)};
  }
  void check_shape() {
    if (shape_.ranks < 1 || shape_.stages < 1 || shape_.microbatches < 1 || shape_.segments < 1 ||
        shape_.replicas < 1 || schedule_.order.size() != static_cast<std::size_t>(shape_.ranks) ||
        shape_.rank_of_stage.size() != static_cast<std::size_t>(shape_.total_stages())) {
      fault_ = ScheduleFault{Rank{0}, 0, "the schedule's shape contradicts its rows", ""};
    }
  }

  void check_rank(Rank rank) {
    const auto& order = schedule_.order[rank];
    for (std::size_t position = 0; position < order.size() && !fault_; ++position) {
      const Action& action = order[position];
      std::string reason = misplaced(rank, action);
      if (reason.empty()) reason = out_of_turn(action);
      if (reason.empty() && (action.kind == ActionKind::B || action.kind == ActionKind::W)) {
        auto& last = last_gradient_[action.stage];
        const std::int64_t turn = gradient_turn(action.microbatch);
        if (turn < last && !options_.allow_reordered) {
          reason = fmt::format(
              "{} comes after the gradient of a later micro-batch (allow_reordered accepts it)",
              to_string(action));
        }
        last = std::max(last, turn);
      }
      if (!reason.empty()) fail(rank, position, std::move(reason));
    }
  }

  // Micro-batches ascend; within one, slices go backward from the last, as causal attention needs.
  [[nodiscard]] std::int64_t gradient_turn(Microbatch unit) const {
    const std::int64_t segments = shape_.segments;
    return unit.value / segments * segments + (segments - 1 - unit.value % segments);
  }

  [[nodiscard]] std::string misplaced(Rank rank, const Action& action) const {
    const std::string name = to_string(action);
    if (action.kind > ActionKind::W)
      return fmt::format("{} is not a compute action (F, B, I or W)", name);
    if (action.stage.value < 0 || action.stage.value >= shape_.total_stages()) {
      return fmt::format("{} names a stage outside 0..{}", name, shape_.total_stages() - 1);
    }
    if (action.microbatch.value < 0 || action.microbatch.value >= shape_.units()) {
      return fmt::format("{} names a micro-batch outside 0..{}", name, shape_.units() - 1);
    }
    if (shape_.rank_of(action.stage) != rank) {
      return fmt::format("{} belongs on rank {}", name, shape_.rank_of(action.stage).value);
    }
    return {};
  }

  std::string out_of_turn(const Action& action) {
    std::uint8_t& so_far = seen_[action];
    const std::string name = to_string(action);
    const std::string forward = to_string(
        Action{.stage = action.stage, .kind = ActionKind::F, .microbatch = action.microbatch});
    const auto note = [&so_far](Seen flag) {
      so_far = static_cast<std::uint8_t>(so_far | flag);
      return std::string();
    };
    switch (action.kind) {
      case ActionKind::F: {
        if ((so_far & seen_f) != 0) return fmt::format("{} a second time", name);
        // The first F decides which copy of the model a micro-batch goes through.
        auto& owner = replica_of_unit_[action.microbatch];
        if (owner < 0) owner = shape_.replica_of(action.stage);
        if (owner != shape_.replica_of(action.stage)) {
          return fmt::format("{}: micro-batch {} already goes through replica {}", name,
                             action.microbatch.value, owner);
        }
        return note(seen_f);
      }
      case ActionKind::B:
      case ActionKind::I:
        if ((so_far & (seen_b | seen_i)) != 0)
          return fmt::format("{}: its backward is already there", name);
        if ((so_far & seen_f) == 0) return fmt::format("{} before {}", name, forward);
        return note(action.kind == ActionKind::B ? seen_b : seen_i);
      default:
        if ((so_far & (seen_b | seen_w)) != 0)
          return fmt::format("{}: its weight gradient is already there", name);
        if ((so_far & seen_i) == 0) return fmt::format("{} before its I", name);
        return note(seen_w);
    }
  }

  void check_complete() {
    for (const Stage stage : shape_.all_stages()) {
      for (const Microbatch unit : replica_of_unit_.ids()) {
        const std::uint8_t so_far = seen_(stage, unit);
        const bool owned = replica_of_unit_[unit] == shape_.replica_of(stage);
        const bool whole = (so_far & seen_b) != 0 || (so_far & seen_w) != 0;
        // Without an F anywhere a micro-batch has no replica.
        const bool nowhere = replica_of_unit_[unit] < 0;
        if ((!owned && !nowhere) || (owned && whole)) continue;
        const char* missing = (so_far & seen_f) == 0   ? "F"
                              : (so_far & seen_i) == 0 ? "B (or I and W)"
                                                       : "W";
        const Rank rank = shape_.rank_of(stage);
        return fail(
            rank, schedule_.order[rank].size(),
            fmt::format("stage {} has no {} of micro-batch {}", stage.value, missing, unit.value));
      }
    }
  }

  // The action of another stage that `action` must wait for, of several shards' the first that is
  // not done; nullopt when there is none.
  [[nodiscard]] std::optional<Action> awaited(const Action& action) const {
    if (!shards_->ready(action)) return awaited_of_shards(action);
    if (action.kind == ActionKind::F && !shape_.is_first(action.stage)) {
      return Action{action.stage - 1, ActionKind::F, action.microbatch};
    }
    if (is_backward(action.kind) && !shape_.is_last(action.stage)) {
      // B stands for either backward: both set done_i.
      return Action{action.stage + 1, ActionKind::B, action.microbatch};
    }
    return std::nullopt;
  }

  [[nodiscard]] Action awaited_of_shards(const Action& action) const {
    if (shape_.is_shard(action.stage) && action.kind == ActionKind::F)
      return {Stage{shape_.stages - 1}, ActionKind::F, action.microbatch};
    const bool forwards = shape_.is_shard(action.stage) || waits_for_forwards(shape_.vocabulary);
    Action other{shape_.shard(Rank{0}), forwards ? ActionKind::F : ActionKind::B,
                 action.microbatch};
    while ((seen_[other] & (forwards ? done_f : done_i)) != 0) ++other.stage;
    return other;
  }

  void dry_run() {
    shards_.emplace(shape_);
    Indexed<Rank, std::size_t> next(shape_.ranks);
    std::vector<Rank> awake;
    for (const Rank rank : next.ids()) awake.push_back(rank);
    while (!awake.empty()) {
      const Rank rank = awake.back();
      awake.pop_back();
      const auto& order = schedule_.order[rank];
      for (; next[rank] < order.size(); ++next[rank]) {
        const Action& action = order[next[rank]];
        const auto other = awaited(action);
        if (other && (seen_[*other] & (other->kind == ActionKind::F ? done_f : done_i)) == 0) {
          break;
        }
        // No other rank waits for a W.
        if (action.kind == ActionKind::W) continue;
        const bool forward = action.kind == ActionKind::F;
        std::uint8_t& flags = seen_[action];
        flags = static_cast<std::uint8_t>(flags | (forward ? done_f : done_i));
        if (shards_->note(action)) {
          for (const Rank waiting : next.ids()) awake.push_back(waiting);
        }
        const bool ends = forward ? shape_.is_last(action.stage) : shape_.is_first(action.stage);
        if (!ends) awake.push_back(shape_.rank_of(action.stage + (forward ? 1 : -1)));
      }
    }
    for (const Rank rank : next.ids()) {
      if (next[rank] == schedule_.order[rank].size()) continue;
      const Action& action = schedule_.order[rank][next[rank]];
      const Action other = *awaited(action);
      fail(rank, next[rank],
           fmt::format("deadlock: {} waits for {} of stage {}, which is never reached on rank {}",
                       to_string(action),
                       other.kind == ActionKind::F ? "the output" : "the gradient",
                       other.stage.value, shape_.rank_of(other.stage).value));
      return;
    }
  }

  const Schedule& schedule_;
  const ScheduleShape& shape_;
  const ValidationOptions& options_;
  Cells<std::uint8_t> seen_;                           // flags of Seen
  Indexed<Microbatch, std::int32_t> replica_of_unit_;  // which replica a micro-batch goes through
  Indexed<Stage, std::int64_t> last_gradient_;         // the latest turn so far
  std::optional<ShardPasses> shards_;                  // of the dry run
  std::optional<ScheduleFault> fault_;
};

}  // namespace

std::optional<ScheduleFault> validate(const Schedule& schedule, const ValidationOptions& options) {
  return Judge(schedule, options).judge();
}

}  // namespace weir
