// Lowering in the steps of the header. Start at `lower`: it collects the messages of each edge in
// the order in which their producers compute, lays the lanes out, and then writes down what each
// operation waits for.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "plan/program/deadlock.hpp"

namespace weir {
namespace {

constexpr OperationId kNone = -1;

bool rematerialised(const Schedule& schedule, const LoweringOptions& options,
                    const Action& action) {
  if (!is_backward(action.kind) || options.recompute.empty()) return false;
  if (!options.recompute[static_cast<std::size_t>(action.stage.value)]) return false;
  const bool last =
      action.microbatch.value / schedule.shape.segments == schedule.shape.microbatches - 1;
  return !(options.keep_last_microbatch && last);
}

// Stages that hold copies of a stage's weights (replicas) or share one of its weights (ties),
// itself included.
std::vector<std::vector<Stage>> copies_of_stages(const ScheduleShape& shape,
                                                 const LoweringOptions& options) {
  std::vector<std::vector<Stage>> copies(static_cast<std::size_t>(shape.total_stages()));
  const auto join = [&](std::int32_t stage, std::int32_t other) {
    auto& group = copies[static_cast<std::size_t>(stage)];
    for (std::int32_t replica = 0; replica < shape.replicas; ++replica) {
      const Stage copy{replica * shape.stages + other % shape.stages};
      if (std::find(group.begin(), group.end(), copy) == group.end()) group.push_back(copy);
    }
  };
  for (std::int32_t stage = 0; stage < shape.total_stages(); ++stage) {
    join(stage, stage);
    for (const auto& tie : options.tied) {
      const bool member = std::any_of(
          tie.begin(), tie.end(), [&](Stage other) { return other.value == stage % shape.stages; });
      for (const Stage other : tie) {
        if (member) join(stage, other.value);
      }
    }
    std::sort(copies[static_cast<std::size_t>(stage)].begin(),
              copies[static_cast<std::size_t>(stage)].end());
  }
  return copies;
}

class Lowering {
 public:
  Lowering(const Schedule& schedule, const LoweringOptions& options)
      : options_(options), compute_(place_recompute(schedule, options)) {
    program_.shape = schedule.shape;
    program_.slots = options.slots;
  }

  Program build() {
    copies_ = copies_of_stages(program_.shape, options_);
    collect_messages();
    lay_out_lanes();
    write_dependencies();
    return std::move(program_);
  }

 private:
  struct Message {
    Action send, receive;
  };

  [[nodiscard]] const ScheduleShape& shape() const { return program_.shape; }
  [[nodiscard]] std::size_t cell(Stage stage, Microbatch unit) const {
    return static_cast<std::size_t>(stage.value) * static_cast<std::size_t>(shape().units()) +
           static_cast<std::size_t>(unit.value);
  }

  // What the end of `action` sends on: to the next stage after F, to the stage before after B or I.
  [[nodiscard]] std::optional<Message> message_after(const Action& action) const {
    if (action.kind == ActionKind::F && !shape().is_last(action.stage)) {
      const Stage next{action.stage.value + 1};
      return Message{{action.stage, ActionKind::SEND_F, action.microbatch},
                     {next, ActionKind::RECV_F, action.microbatch}};
    }
    if (is_backward(action.kind) && !shape().is_first(action.stage)) {
      const Stage before{action.stage.value - 1};
      return Message{{action.stage, ActionKind::SEND_B, action.microbatch},
                     {before, ActionKind::RECV_B, action.microbatch}};
    }
    return std::nullopt;
  }

  void collect_messages() {
    const auto ranks = static_cast<std::size_t>(shape().ranks);
    std::vector<std::vector<Message>> to(ranks);
    for (std::size_t from = 0; from < ranks; ++from) {
      for (auto& messages : to) messages.clear();
      for (const Action& action : compute_[from]) {
        const auto message = message_after(action);
        if (!message) continue;
        const auto peer = static_cast<std::size_t>(shape().rank_of(message->receive.stage).value);
        if (peer != from) to[peer].push_back(*message);
      }
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        if (to[peer].empty()) continue;
        program_.edges.push_back(
            {Rank{static_cast<std::int32_t>(from)}, Rank{static_cast<std::int32_t>(peer)}, 0, 0});
        messages_.push_back(to[peer]);
      }
    }
  }

  void open_lane(Rank rank, LaneKind kind, std::int32_t edge) {
    const auto here = static_cast<OperationId>(program_.operations.size());
    program_.lanes.push_back({rank, kind, edge, here, here});
  }
  OperationId add(const Action& action) {
    program_.operations.push_back({action, static_cast<LaneId>(program_.lanes.size() - 1)});
    return program_.lanes.back().last++;
  }
  [[nodiscard]] bool reduces(Stage stage) const {
    return options_.reduce_all || copies_[static_cast<std::size_t>(stage.value)].size() > 1;
  }

  void lay_out_lanes() {
    const std::size_t cells = static_cast<std::size_t>(shape().total_stages()) *
                              static_cast<std::size_t>(shape().units());
    forward_.assign(cells, kNone);
    backward_.assign(cells, kNone);
    receive_f_.assign(cells, kNone);
    receive_b_.assign(cells, kNone);
    last_gradient_.assign(static_cast<std::size_t>(shape().total_stages()), kNone);
    reduce_.assign(static_cast<std::size_t>(shape().total_stages()), kNone);
    std::size_t total = 0;
    for (const auto& order : compute_) total += order.size() + 4;
    for (const auto& messages : messages_) total += 2 * messages.size();
    program_.operations.reserve(total);
    std::vector<std::vector<std::int32_t>> out(compute_.size()), in(compute_.size());
    for (std::size_t e = 0; e < program_.edges.size(); ++e) {
      out[static_cast<std::size_t>(program_.edges[e].from.value)].push_back(
          static_cast<std::int32_t>(e));
      in[static_cast<std::size_t>(program_.edges[e].to.value)].push_back(
          static_cast<std::int32_t>(e));
    }
    for (std::size_t rank = 0; rank < compute_.size(); ++rank) {
      lay_out_compute(Rank{static_cast<std::int32_t>(rank)});
      for (const std::int32_t edge : out[rank]) lay_out_send(edge);
      for (const std::int32_t edge : in[rank]) lay_out_receive(edge);
    }
  }

  void lay_out_compute(Rank rank) {
    open_lane(rank, LaneKind::compute, -1);
    for (const Action& action : compute_[static_cast<std::size_t>(rank.value)]) {
      const OperationId id = add(action);
      if (action.kind == ActionKind::F) forward_[cell(action.stage, action.microbatch)] = id;
      if (is_backward(action.kind)) backward_[cell(action.stage, action.microbatch)] = id;
      if (action.kind == ActionKind::B || action.kind == ActionKind::W) {
        last_gradient_[static_cast<std::size_t>(action.stage.value)] = id;
      }
    }
    if (!options_.optimizer) return;
    std::vector<Stage> stages;
    for (std::int32_t stage = 0; stage < shape().total_stages(); ++stage) {
      if (shape().rank_of(Stage{stage}) == rank) stages.push_back(Stage{stage});
    }
    for (const Stage stage : stages) add({stage, ActionKind::OPTIMIZER, Microbatch{-1}});
    if (std::none_of(stages.begin(), stages.end(), [&](Stage stage) { return reduces(stage); }))
      return;
    open_lane(rank, LaneKind::reduce, -1);
    for (const Stage stage : stages) {
      if (reduces(stage)) {
        reduce_[static_cast<std::size_t>(stage.value)] =
            add({stage, ActionKind::REDUCE_GRAD, Microbatch{-1}});
      }
    }
  }

  void lay_out_send(std::int32_t edge) {
    auto& e = program_.edges[static_cast<std::size_t>(edge)];
    e.send_lane = static_cast<LaneId>(program_.lanes.size());
    open_lane(e.from, LaneKind::send, edge);
    for (const Message& message : messages_[static_cast<std::size_t>(edge)]) add(message.send);
  }

  void lay_out_receive(std::int32_t edge) {
    auto& e = program_.edges[static_cast<std::size_t>(edge)];
    e.receive_lane = static_cast<LaneId>(program_.lanes.size());
    open_lane(e.to, LaneKind::receive, edge);
    for (const Message& message : messages_[static_cast<std::size_t>(edge)]) {
      const Action& receive = message.receive;
      auto& table = receive.kind == ActionKind::RECV_F ? receive_f_ : receive_b_;
      table[cell(receive.stage, receive.microbatch)] = add(receive);
    }
  }

  void depend(OperationId before, DependencyKind kind) {
    program_.dependencies.push_back({before, kind});
  }

  void write_dependencies() {
    program_.dependency_first.reserve(program_.operations.size() + 1);
    program_.dependencies.reserve(2 * program_.operations.size());
    for (const Lane& lane : program_.lanes) {
      for (OperationId id = lane.first; id < lane.last; ++id) {
        program_.dependency_first.push_back(
            static_cast<std::int32_t>(program_.dependencies.size()));
        switch (lane.kind) {
          case LaneKind::compute:
            compute_waits_for(program_.operations[static_cast<std::size_t>(id)].action);
            break;
          case LaneKind::reduce:
            reduce_waits_for(program_.operations[static_cast<std::size_t>(id)].action.stage);
            break;
          case LaneKind::send:
            send_waits_for(lane, id - lane.first);
            break;
          case LaneKind::receive: {
            const auto& edge = program_.edges[static_cast<std::size_t>(lane.edge)];
            const Lane& send = program_.lanes[static_cast<std::size_t>(edge.send_lane)];
            depend(send.first + (id - lane.first), DependencyKind::message);
          }
        }
      }
    }
    program_.dependency_first.push_back(static_cast<std::int32_t>(program_.dependencies.size()));
  }

  void compute_waits_for(const Action& action) {
    const std::size_t here =
        cell(action.stage, has_microbatch(action.kind) ? action.microbatch : Microbatch{0});
    const bool needs_gradient =
        is_backward(action.kind) ||
        (action.kind == ActionKind::R && options_.placement == RecomputePlacement::fused);
    if (action.kind == ActionKind::F && !shape().is_first(action.stage)) {
      const OperationId local = forward_[cell(Stage{action.stage.value - 1}, action.microbatch)];
      depend(receive_f_[here] != kNone ? receive_f_[here] : local, DependencyKind::data);
    } else if (needs_gradient && !shape().is_last(action.stage)) {
      const OperationId local = backward_[cell(Stage{action.stage.value + 1}, action.microbatch)];
      depend(receive_b_[here] != kNone ? receive_b_[here] : local, DependencyKind::data);
    } else if (action.kind == ActionKind::OPTIMIZER && reduces(action.stage)) {
      // All copies reduce before any updates: a gradient is not overwritten while a peer still
      // reads it.
      for (const Stage copy : copies_[static_cast<std::size_t>(action.stage.value)]) {
        depend(reduce_[static_cast<std::size_t>(copy.value)], DependencyKind::gradient);
      }
    }
  }

  void reduce_waits_for(Stage stage) {
    for (const Stage copy : copies_[static_cast<std::size_t>(stage.value)]) {
      const OperationId last = last_gradient_[static_cast<std::size_t>(copy.value)];
      if (last != kNone)
        depend(last, DependencyKind::gradient);  // none: a replica without micro-batches
    }
  }

  void send_waits_for(const Lane& lane, std::int32_t index) {
    const auto& messages = messages_[static_cast<std::size_t>(lane.edge)];
    const Action& send = messages[static_cast<std::size_t>(index)].send;
    const auto& producers = send.kind == ActionKind::SEND_F ? forward_ : backward_;
    depend(producers[cell(send.stage, send.microbatch)], DependencyKind::data);
    if (options_.slots > 0 && index >= options_.slots) {
      const Action& freed = messages[static_cast<std::size_t>(index - options_.slots)].receive;
      const auto& consumers = freed.kind == ActionKind::RECV_F ? forward_ : backward_;
      depend(consumers[cell(freed.stage, freed.microbatch)], DependencyKind::slot);
    }
  }

  const LoweringOptions& options_;
  std::vector<std::vector<Action>> compute_;
  std::vector<std::vector<Stage>> copies_;      // per stage
  std::vector<std::vector<Message>> messages_;  // per edge, in FIFO order
  Program program_;
  // Operation of each (stage, micro-batch): its F, its B or I, the receives of its input and output
  // gradient.
  std::vector<OperationId> forward_, backward_, receive_f_, receive_b_;
  std::vector<OperationId> last_gradient_, reduce_;  // per stage: its last B or W; its REDUCE_GRAD
};

}  // namespace

std::vector<std::vector<Action>> place_recompute(const Schedule& schedule,
                                                 const LoweringOptions& options) {
  std::vector<std::vector<Action>> placed(schedule.order.size());
  for (std::size_t rank = 0; rank < placed.size(); ++rank) {
    placed[rank].reserve(schedule.order[rank].size());
    for (const Action& action : schedule.order[rank]) {
      if (rematerialised(schedule, options, action)) {
        placed[rank].push_back({action.stage, ActionKind::R, action.microbatch});
      }
      placed[rank].push_back(action);
    }
  }
  return placed;
}

Program lower(const Schedule& schedule, const LoweringOptions& options) {
  assert(options.recompute.empty() ||
         options.recompute.size() == static_cast<std::size_t>(schedule.shape.total_stages()));
  return Lowering(schedule, options).build();
}

std::int32_t fewest_slots(const Schedule& schedule, std::int32_t at_least) {
  LoweringOptions options;
  options.optimizer = false;
  for (options.slots = at_least;; ++options.slots) {
    if (!find_cycle(lower(schedule, options))) return options.slots;
    if (options.slots >= schedule.shape.units() * schedule.shape.stages)
      return 0;  // a cycle without slots: validate's
  }
}

}  // namespace weir
