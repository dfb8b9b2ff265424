// Lowering in the steps of the header. Start at `lower`: it collects the messages of each edge in
// the order in which their producers compute, lays the lanes out, and then writes down what each
// operation waits for.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/lower.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

#include "plan/program/slot_walk.hpp"
#include "plan/schedule/shard_passes.hpp"

namespace weir {
namespace {

bool rematerialised(const Schedule& schedule, const LoweringOptions& options,
                    const Action& action) {
  if (!is_backward(action.kind) || options.recompute.empty()) return false;
  if (!options.recompute[action.stage.position()]) return false;
  return !(options.keep_last_microbatch && schedule.shape.is_last_microbatch(action.microbatch));
}

// Stages that hold copies of a stage's weights (replicas) or share one of its weights (ties),
// itself included.
Indexed<Stage, std::vector<Stage>> copies_of_stages(const ScheduleShape& shape,
                                                    const LoweringOptions& options) {
  Indexed<Stage, std::vector<Stage>> copies(shape.total_stages());
  for (const Stage stage : copies.ids()) {
    std::vector<Stage>& group = copies[stage];
    if (shape.is_shard(stage)) {  // whatever the plan's replicas are, it is there once
      group.push_back(stage);
      continue;
    }
    const auto join = [&](Stage other) {
      for (std::int32_t replica = 0; replica < shape.replicas; ++replica) {
        const Stage copy{replica * shape.stages + other.value % shape.stages};
        if (std::ranges::find(group, copy) == group.end()) group.push_back(copy);
      }
    };
    join(stage);
    for (const auto& tie : options.tied) {
      // Ties name stages of the first replica; they hold for every copy.
      if (std::ranges::count(tie, shape.original(stage)) == 0) continue;
      for (const Stage other : tie) join(other);
    }
    std::ranges::sort(group);
  }
  return copies;
}

class Lowering {
 public:
  Lowering(const Schedule& schedule, const LoweringOptions& options)
      : options_(options),
        compute_(place_recompute(schedule, options)),
        copies_(copies_of_stages(schedule.shape, options)),
        program_{.shape = schedule.shape,
                 .slots = options.slots,
                 .operations = {},
                 .lanes = {},
                 .edges = {},
                 .dependencies = {},
                 .spares_last = options.keep_last_microbatch},
        forward_(schedule.shape, kNoOperation),
        backward_(schedule.shape, kNoOperation),
        receive_f_(schedule.shape, kNoOperation),
        receive_b_(schedule.shape, kNoOperation),
        last_gradient_(schedule.shape.total_stages(), kNoOperation),
        reduce_(schedule.shape.total_stages(), kNoOperation) {}

  // The steps of docs/design.md 5; place_recompute was the first.
  Program build() {
    collect_messages();    // 2. sends and receives, one FIFO an edge
    lay_out_lanes();       // 3. and 4. optimizer and reductions; lanes, rank by rank
    write_dependencies();  // what each operation waits for, now that all have ids
    return Program(std::move(program_));
  }

 private:
  struct Message {
    Action send, receive;
  };

  [[nodiscard]] const ScheduleShape& shape() const { return program_.shape; }

  // What the end of `action` sends on: to the next stage after F, to the stage before after B or I;
  // and the skips that this stage has made, or their gradients, past those.
  template <class Take>
  void each_message_after(const Action& action, Take take) const {
    const Microbatch m = action.microbatch;
    if (action.kind == ActionKind::F && !shape().is_last(action.stage)) {
      take(Message{{action.stage, ActionKind::SEND_F, m},
                   {action.stage + 1, ActionKind::RECV_F, m}});
      for (const auto& [from, to] : options_.skips) {
        if (from == action.stage)
          take(Message{{from, ActionKind::SEND_F, m, to}, {to, ActionKind::RECV_F, m, from}});
      }
    }
    if (is_backward(action.kind) && !shape().is_first(action.stage)) {
      take(Message{{action.stage, ActionKind::SEND_B, m},
                   {action.stage - 1, ActionKind::RECV_B, m}});
      for (const auto& [from, to] : options_.skips) {
        if (to == action.stage)
          take(Message{{to, ActionKind::SEND_B, m, from}, {from, ActionKind::RECV_B, m, to}});
      }
    }
  }

  // In the order in which their producers compute, which both ends of an edge keep: so no message
  // overtakes another.
  void collect_messages() {
    Indexed<Rank, std::vector<Message>> to(shape().ranks);
    for (const Rank from : to.ids()) {
      std::vector<Rank> peers;  // of many ranks each has few
      for (const Action& action : compute_[from]) {
        each_message_after(action, [&](const Message& message) {
          const Rank peer = shape().rank_of(message.receive.stage);
          // Between stages of one rank nothing is sent.
          if (peer == from) return;
          if (to[peer].empty()) peers.push_back(peer);
          to[peer].push_back(message);
        });
      }
      std::ranges::sort(peers);
      for (const Rank peer : peers) {
        program_.edges.push_back({from, peer, {}, {}});
        messages_.push_back(std::exchange(to[peer], {}));
      }
    }
  }

  LaneId open_lane(Rank rank, LaneKind kind, EdgeId edge) {
    const OperationId here = program_.operations.next();
    program_.lanes.push_back({rank, kind, edge, here, here});
    return program_.lanes.next() - 1;
  }
  OperationId add(const Action& action) {
    const OperationId id = program_.operations.next();
    program_.operations.push_back({action, program_.lanes.next() - 1});
    program_.lanes.back().last = id + 1;
    return id;
  }
  [[nodiscard]] bool reduces(Stage stage) const {
    return options_.reduce_all || options_.clips || copies_[stage].size() > 1;
  }

  void lay_out_lanes() {
    std::size_t total = 0;
    for (const auto& order : compute_) total += order.size() + 4;
    for (const auto& messages : messages_) total += 2 * messages.size();
    program_.operations.reserve(total);
    Indexed<Rank, std::vector<EdgeId>> out(shape().ranks), in(shape().ranks);
    for (const EdgeId edge : program_.edges.ids()) {
      out[program_.edges[edge].from].push_back(edge);
      in[program_.edges[edge].to].push_back(edge);
    }
    Indexed<Rank, std::vector<Stage>> stages(shape().ranks);
    for (const Stage stage : copies_.ids()) stages[shape().rank_of(stage)].push_back(stage);
    // Rank by rank, so that a rank's operations stand together.
    for (const Rank rank : compute_.ids()) {
      lay_out_compute(rank, stages[rank]);
      for (const EdgeId edge : out[rank]) lay_out_send(edge);
      for (const EdgeId edge : in[rank]) lay_out_receive(edge);
    }
  }

  // The collectives of a divided vocabulary, all on the last rank's lane of reductions: a group's
  // go one after the other, in the order in which the source calls them.
  [[nodiscard]] std::vector<Action> collectives() const {
    std::vector<Action> all;
    if (shape().shards() == 0) return all;
    const Stage last{shape().stages - 1}, shard = shape().shard(Rank{shape().ranks - 1});
    const bool two = shape().vocabulary == Vocabulary::two_barriers;
    for (std::int32_t m = 0; m < shape().units(); ++m) {
      all.push_back({last, ActionKind::BROADCAST, Microbatch{m}});
      all.push_back({shard, ActionKind::ALL_REDUCE_F, Microbatch{m}});
      // T comes with the S of the micro-batch behind it, whose maxima and sums go first.
      if (two && m > 0) all.push_back({shard, ActionKind::ALL_REDUCE_B, Microbatch{m - 1}});
      if (shape().vocabulary == Vocabulary::synchronous)
        all.push_back({shard, ActionKind::ALL_REDUCE_B, Microbatch{m}});
    }
    if (two) all.push_back({shard, ActionKind::ALL_REDUCE_B, Microbatch{shape().units() - 1}});
    return all;
  }

  void lay_out_reductions(Rank rank, const std::vector<Stage>& stages) {
    const auto shared = rank.value == shape().ranks - 1 ? collectives() : std::vector<Action>();
    const bool any = options_.optimizer &&
                     std::ranges::any_of(stages, [&](Stage stage) { return reduces(stage); });
    if (!any && shared.empty()) return;
    // A lane of their own: reductions run beside the backwards that follow.
    open_lane(rank, LaneKind::reduce, kNoEdge);
    for (const Action& action : shared) collective_[action] = add(action);
    for (const Stage stage : stages) {
      if (any && reduces(stage))
        reduce_[stage] = add({stage, ActionKind::REDUCE_GRAD, Microbatch{-1}});
    }
  }

  void lay_out_compute(Rank rank, const std::vector<Stage>& stages) {
    open_lane(rank, LaneKind::compute, kNoEdge);
    for (const Action& action : compute_[rank]) {
      const OperationId id = add(action);
      if (action.kind == ActionKind::F) forward_[action] = id;
      if (is_backward(action.kind)) backward_[action] = id;
      if (action.kind == ActionKind::B || action.kind == ActionKind::W)
        last_gradient_[action.stage] = id;
    }
    if (options_.optimizer) {
      for (const Stage stage : stages) add({stage, ActionKind::OPTIMIZER, Microbatch{-1}});
    }
    lay_out_reductions(rank, stages);
  }

  void lay_out_send(EdgeId id) {
    Edge& edge = program_.edges[id];
    edge.send_lane = open_lane(edge.from, LaneKind::send, id);
    for (const Message& message : messages_[id]) add(message.send);
  }

  void lay_out_receive(EdgeId id) {
    Edge& edge = program_.edges[id];
    edge.receive_lane = open_lane(edge.to, LaneKind::receive, id);
    for (const auto& [send, receive] : messages_[id]) {
      const OperationId added = add(receive);
      // A skip's message is known by both its stages, a neighbour's by one.
      if (is_skip(receive)) {
        receive_skip_[receive] = added;
      } else {
        (receive.kind == ActionKind::RECV_F ? receive_f_ : receive_b_)[receive] = added;
      }
    }
  }

  void depend(OperationId before, DependencyKind kind) { program_.dependencies.add(before, kind); }

  void write_dependencies() {
    program_.dependencies.reserve(program_.operations.size(), 2 * program_.operations.size());
    for (const Lane& lane : program_.lanes) {
      for (const OperationId id : lane.operations()) {
        const Action& action = program_.operations[id].action;
        program_.dependencies.next();
        switch (lane.kind) {
          case LaneKind::compute:
            compute_waits_for(action);
            wait_for_shards(action);
            if (id != lane.first) wait_for_the_sum_before(program_.operations[id - 1].action);
            break;
          case LaneKind::reduce:
            if (has_microbatch(action.kind)) {
              collective_waits_for(action);
            } else {
              reduce_waits_for(action.stage);
            }
            break;
          case LaneKind::send:
            send_waits_for(action, messages_[lane.edge], id - lane.first);
            break;
          case LaneKind::receive:
            depend(program_.lanes[program_.edges[lane.edge].send_lane].first + (id - lane.first),
                   DependencyKind::message);
        }
      }
    }
  }

  // The value comes by a message or, from a stage of the same rank, from its producer.
  void value_of(OperationId received, OperationId local) {
    depend(received != kNoOperation ? received : local, DependencyKind::data);
  }
  void compute_waits_for(const Action& action) {
    // R itself waits only where it is fused.
    const bool needs_gradient =
        is_backward(action.kind) ||
        (action.kind == ActionKind::R && options_.placement == RecomputePlacement::fused);
    if (action.kind == ActionKind::F && !shape().is_first(action.stage)) {
      value_of(receive_f_[action], forward_(action.stage - 1, action.microbatch));
      wait_for_skips(action, ActionKind::RECV_F);
    } else if (needs_gradient && !shape().is_last(action.stage)) {
      value_of(receive_b_[action], backward_(action.stage + 1, action.microbatch));
      wait_for_skips(action, ActionKind::RECV_B);
    } else if (action.kind == ActionKind::OPTIMIZER && reduces(action.stage)) {
      // All copies reduce before any updates: a gradient is not overwritten while a peer still
      // reads it. A norm is all stages'.
      if (options_.clips) return optimizer_waits_for_all();
      for (const Stage copy : copies_[action.stage])
        depend(reduce_[copy], DependencyKind::gradient);
    }
  }

  // What a shard takes of others, and the last stage of shards (plan/schedule/shard_passes).
  void wait_for_shards(const Action& action) {
    if (shape().shards() == 0 || !has_microbatch(action.kind)) return;
    const Microbatch m = action.microbatch;
    const Stage last{shape().stages - 1}, sums = shape().shard(Rank{shape().ranks - 1});
    if (shape().is_shard(action.stage)) {
      const bool synchronous = shape().vocabulary == Vocabulary::synchronous;
      if (action.kind == ActionKind::F && action.stage == sums && !synchronous) {
        depend(forward_(last, m), DependencyKind::data);  // who sends has it already
      } else if (action.kind == ActionKind::F) {
        depend(collective_.at({last, ActionKind::BROADCAST, m}), DependencyKind::data);
      } else if (is_backward(action.kind)) {
        depend(collective_.at({sums, ActionKind::ALL_REDUCE_F, m}), DependencyKind::data);
      }
    } else if (is_backward(action.kind) && action.stage == last) {
      const bool forwards = waits_for_forwards(shape().vocabulary);
      const ActionKind kind = forwards ? ActionKind::ALL_REDUCE_F : ActionKind::ALL_REDUCE_B;
      depend(collective_.at({sums, kind, m}), DependencyKind::data);
    }
  }

  // Where shards are synchronous their last sum ends before a rank goes on.
  void wait_for_the_sum_before(const Action& before) {
    if (shape().vocabulary != Vocabulary::synchronous || !shape().is_shard(before.stage)) return;
    if (!is_backward(before.kind)) return;
    const Stage sums = shape().shard(Rank{shape().ranks - 1});
    depend(collective_.at({sums, ActionKind::ALL_REDUCE_B, before.microbatch}),
           DependencyKind::data);
  }

  void collective_waits_for(const Action& action) {
    if (action.kind == ActionKind::BROADCAST) {
      depend(forward_[action], DependencyKind::data);
      // A synchronous one begins when all ranks have come to it; before its S a rank has an F.
      for (std::int32_t rank = 0; rank < shape().ranks; ++rank) {
        const OperationId s = forward_(shape().shard(Rank{rank}), action.microbatch);
        if (shape().vocabulary == Vocabulary::synchronous) depend(s - 1, DependencyKind::data);
      }
      return;
    }
    const bool forwards = action.kind == ActionKind::ALL_REDUCE_F;
    for (std::int32_t rank = 0; rank < shape().ranks; ++rank) {
      const Stage shard = shape().shard(Rank{rank});
      depend((forwards ? forward_ : backward_)(shard, action.microbatch), DependencyKind::data);
    }
  }

  // Of its stage's skips, those that F takes, or those whose gradients a backward does.
  void wait_for_skips(const Action& action, ActionKind received) {
    for (const auto& [from, to] : options_.skips) {
      const bool forward = received == ActionKind::RECV_F;
      if ((forward ? to : from) != action.stage) continue;
      const Action message{action.stage, received, action.microbatch, forward ? from : to};
      depend(receive_skip_.at(message), DependencyKind::data);
    }
  }

  void optimizer_waits_for_all() {
    for (const OperationId reduce : reduce_) depend(reduce, DependencyKind::gradient);
  }

  void reduce_waits_for(Stage stage) {
    for (const Stage copy : copies_[stage]) {
      const OperationId last = last_gradient_[copy];  // none: a replica without micro-batches
      if (last != kNoOperation) depend(last, DependencyKind::gradient);
    }
  }

  void send_waits_for(const Action& send, const std::vector<Message>& messages,
                      std::int32_t index) {
    depend((send.kind == ActionKind::SEND_F ? forward_ : backward_)[send], DependencyKind::data);
    if (options_.slots > 0 && index >= options_.slots) {
      // A slot is free again when what took the message `slots` before this one has ended.
      const Action& freed = messages[static_cast<std::size_t>(index - options_.slots)].receive;
      depend((freed.kind == ActionKind::RECV_F ? forward_ : backward_)[freed],
             DependencyKind::slot);
    }
  }

  const LoweringOptions& options_;
  Indexed<Rank, std::vector<Action>> compute_;
  Indexed<Stage, std::vector<Stage>> copies_;
  Indexed<EdgeId, std::vector<Message>> messages_;  // in FIFO order
  Program::Parts program_;
  // The F, the B or I, and the receives of input and output gradient.
  Cells<OperationId> forward_, backward_, receive_f_, receive_b_;
  std::map<Action, OperationId> receive_skip_, collective_;
  Indexed<Stage, OperationId> last_gradient_, reduce_;  // the last B or W; the REDUCE_GRAD
};

}  // namespace

Indexed<Rank, std::vector<Action>> place_recompute(const Schedule& schedule,
                                                   const LoweringOptions& options) {
  Indexed<Rank, std::vector<Action>> placed(schedule.order.size());
  for (const Rank rank : placed.ids()) {
    placed[rank].reserve(schedule.order[rank].size());
    for (const Action& action : schedule.order[rank]) {
      if (rematerialised(schedule, options, action))
        placed[rank].push_back({action.stage, ActionKind::R, action.microbatch});
      placed[rank].push_back(action);
    }
  }
  return placed;
}

Program lower(const Schedule& schedule, const LoweringOptions& options) {
  assert(options.recompute.empty() ||
         options.recompute.size() == static_cast<std::size_t>(schedule.shape.total_stages()));
  assert((options.skips.empty() || schedule.shape.total_stages() == schedule.shape.ranks) &&
         "an edge of its own for each skip: one stage a rank");
  return Lowering(schedule, options).build();
}

// More slots never bring a deadlock: with one more, a send waits for what the send before it on its
// lane waited for with one less, so all its waits follow from those of fewer slots. The step from
// deadlock to none is therefore found by doubling and halving.
std::int32_t fewest_slots(const Schedule& schedule, std::int32_t at_least,
                          const std::vector<SkipRoute>& skips) {
  SlotWalk walk(schedule, skips);
  const auto deadlocks = [&walk](std::int32_t slots) { return !walk.ends(slots); };
  if (!deadlocks(at_least)) return at_least;
  // As many as there can be messages on an edge: more change nothing.
  const std::int32_t most = schedule.shape.units() * schedule.shape.stages;
  std::int32_t too_few = at_least, enough = at_least;
  do {
    too_few = enough;
    if (too_few >= most) return 0;  // a cycle without slots: validate's
    enough = too_few <= most / 2 ? 2 * too_few : most;
  } while (deadlocks(enough));
  while (enough - too_few > 1) {
    const std::int32_t middle = too_few + (enough - too_few) / 2;
    (deadlocks(middle) ? too_few : enough) = middle;
  }
  return enough;
}

}  // namespace weir
