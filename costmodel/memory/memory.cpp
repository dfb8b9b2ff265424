// The memory timeline. costmodel/memory/stage_memory knows what each stage's actions add at their
// worst moment and in the end; `Timeline` replays a step's events over those.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/memory.hpp"

#include <algorithm>
#include <compare>
#include <optional>
#include <utility>

#include "costmodel/memory/pending.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "plan/model/model.hpp"
#include "plan/words/indexed.hpp"
#include "plan/words/per_kind.hpp"

namespace weir {
namespace {

using ByKind = BytesByKind;
std::int64_t total(const ByKind& kinds) { return total_bytes(kinds); }

// What libraries have from the allocator for as long as the process runs.
std::int64_t workspaces(const ResolvedPlan& loaded, const MemoryRules& rules) {
  const StackMemory& memory = rules.stack.memory;
  const Bytes experts = has_experts(loaded.model) ? memory.expert_libraries : Bytes(0);
  return (memory.libraries + experts).count();
}

class Timeline {
 public:
  Timeline(const ResolvedPlan& loaded, const Program& program, std::span<const Bytes> scratch,
           const MemoryRules& rules)
      : program_(program),
        mode_(loaded.plan.recompute.mode),
        live_(at(program.shape().ranks)),
        live_sum_(live_.size()),
        running_(live_.size(), &nothing_),
        peaks_(live_.size()),
        in_flight_(live_.size()),
        most_in_flight_(live_.size()),
        footprints_(program.shape().total_stages()),
        message_bytes_(program.shape().total_stages()) {
    for (std::int32_t stage = 0; stage < program.shape().total_stages(); ++stage) {
      stages_.emplace_back(loaded.plan, rules.part ? *rules.part : *loaded.part,
                           loaded.stage(Stage{stage}), rules.allocator, rules.stack);
      BytesByKind& live = live_[at(program.shape().rank_of(Stage{stage}).value)];
      live += stages_.back().parameters();
      to_come_.push_back(stages_.back().gradients_to_come());
      // Gradients that only the first backward allocates are not there yet.
      live[MemoryKind::gradients] -= to_come_.back();
      live[MemoryKind::workspace] += stages_.back().at_update();
    }
    for (std::size_t rank = 0; rank < live_.size(); ++rank) {
      if (rank < scratch.size()) {
        live_[rank][MemoryKind::workspace] +=
            allocated_bytes(scratch[rank].count(), rules.allocator);
      }
      live_[rank][MemoryKind::workspace] += workspaces(loaded, rules);
      const Bytes process =
          rules.rank_process.empty() ? rules.process_overhead : rules.rank_process[rank];
      live_[rank][MemoryKind::overhead] = process.count();
      live_sum_[rank] = total(live_[rank]);
      note(rank);
    }
  }

  // `sample(event, rank)` after every change, rank by rank: what one holds its own events decide.
  template <class Sample>
  void replay(const MemoryEvents& events, Sample sample) {
    for (const Rank rank : program_.ranks()) {
      for (const Event& event : events.of(rank)) {
        happen(rank, event);
        sample(event, rank.position());
      }
    }
  }

  [[nodiscard]] const std::vector<RankMemory>& peaks() const { return peaks_; }
  [[nodiscard]] const ByKind& live(std::size_t rank) const { return live_[rank]; }
  [[nodiscard]] std::int32_t in_flight(std::size_t rank) const { return in_flight_[rank]; }
  [[nodiscard]] std::int32_t most_in_flight(std::size_t rank) const {
    return most_in_flight_[rank];
  }

 private:
  using Phase = MemoryEvents::Phase;
  using Event = MemoryEvents::Event;
  void happen(Rank rank, const Event& event) {
    const auto [id, phase] = event;
    const Action& action = program_.op(id).action;
    if (phase == Phase::starts || phase == Phase::at_once) begin(rank.position(), id, action);
    if (phase == Phase::ends || phase == Phase::at_once) end(rank.position(), action);
    if (phase != Phase::sends) return;
    const bool leaves = program_.edge_of(id).from == rank;
    (leaves ? sent(rank.position(), action) : comes(rank.position(), action));
  }
  [[nodiscard]] bool rematerialised(const Action& action) const {
    return (mode_ == RecomputeMode::full || mode_ == RecomputeMode::stage) &&
           !program_.spared(action);
  }
  // Sums are kept beside the kinds, because most moments are no peak.
  void note(std::size_t rank) {
    const std::int64_t sum = live_sum_[rank] + running_[rank]->worst_sum;
    if (sum <= peaks_[rank].peak.count()) return;
    peaks_[rank].peak = Bytes(sum);
    ByKind now = live_[rank];
    now += running_[rank]->all.worst;
    for (const MemoryKind kind : kMemoryKinds) peaks_[rank].at_peak[kind] = Bytes(now[kind]);
  }
  void add(std::size_t rank, MemoryKind kind, std::int64_t bytes) {
    live_[rank][kind] += bytes;
    live_sum_[rank] += bytes;
  }
  // With its sums.
  struct Summed {
    Footprint all{};
    std::int64_t worst_sum = 0, net_sum = 0;
  };
  const Summed& footprint(const Action& action) {
    const bool remat = rematerialised(action);
    auto& of_stage = footprints_[action.stage];
    std::optional<Summed>& known = (remat ? of_stage.rebuilt : of_stage.kept)[action.kind];
    if (!known) {
      const Footprint all = stages_[at(action.stage.value)].of(action.kind, remat);
      known = Summed{all, total(all.worst), total(all.net)};
    }
    return *known;
  }
  // A received message leaves its slot when its consumer takes it.
  void take_from_slots(std::size_t rank, OperationId id) {
    for (const Dependency& dependency : program_.predecessors(id)) {
      if (dependency.kind != DependencyKind::data) continue;
      if (program_.lane_of(dependency.before).kind != LaneKind::receive) continue;
      const std::int64_t bytes = message_bytes(program_.op(dependency.before).action);
      add(rank, MemoryKind::receive_slots, -bytes);
      add(rank, MemoryKind::activations, bytes);
    }
  }
  void begin(std::size_t rank, OperationId id, const Action& action) {
    if (action.kind == ActionKind::F) {
      take_from_slots(rank, id);
      // What a shard has between its passes is none of a stage's micro-batches.
      if (!program_.shape().is_shard(action.stage)) ++in_flight_[rank];
      most_in_flight_[rank] = std::max(most_in_flight_[rank], in_flight_[rank]);
    }
    if (is_backward(action.kind)) take_from_slots(rank, id);
    running_[rank] = &footprint(action);
    note(rank);
  }
  void end(std::size_t rank, const Action& action) {
    live_[rank] += running_[rank]->all.net;
    live_sum_[rank] += running_[rank]->net_sum;
    running_[rank] = &nothing_;
    // Within its first backward a stage gives back a layer's activations as its gradient comes, so
    // the most is held before or behind it.
    if (is_backward(action.kind) || action.kind == ActionKind::W)
      add(rank, MemoryKind::gradients, std::exchange(to_come_[at(action.stage.value)], 0));
    const bool over = action.kind == ActionKind::B || action.kind == ActionKind::W;
    if (over && !program_.shape().is_shard(action.stage)) --in_flight_[rank];
    note(rank);
  }
  // Of all micro-batches alike: asked once for each stage and way, but for those that go past
  // stages.
  [[nodiscard]] std::int64_t message_bytes(const Action& message) {
    const StageMemory& stage = stages_[at(message.stage.value)];
    if (is_skip(message)) return stage.message_bytes(message);
    const bool forward = message.kind == ActionKind::SEND_F || message.kind == ActionKind::RECV_F;
    const bool out = message.kind == ActionKind::SEND_F || message.kind == ActionKind::SEND_B;
    MessageBytes& of_stage = message_bytes_[message.stage];
    std::optional<std::int64_t>& known = forward == out ? of_stage.behind : of_stage.before;
    if (!known) known = stage.message_bytes(message);
    return *known;
  }
  void sent(std::size_t rank, const Action& send) {
    add(rank, MemoryKind::activations, -message_bytes(send));
  }
  // From the start of its send a message holds a slot where it goes.
  void comes(std::size_t rank, const Action& send) {
    add(rank, MemoryKind::receive_slots, message_bytes(send));
    note(rank);
  }

  const Program& program_;
  const RecomputeMode mode_;
  std::vector<StageMemory> stages_;
  std::vector<std::int64_t> to_come_;  // by stage: gradients that no backward has made yet
  std::vector<ByKind> live_;           // per rank, without the running action
  std::vector<std::int64_t> live_sum_;
  const Summed nothing_{};
  std::vector<const Summed*> running_;  // per rank
  std::vector<RankMemory> peaks_;
  std::vector<std::int32_t> in_flight_, most_in_flight_;
  // By kind of action, of micro-batches that are re-materialised and of others.
  struct Footprints {
    PerKind<std::optional<Summed>> kept{}, rebuilt{};
  };
  Indexed<Stage, Footprints> footprints_;
  // Of what the stage exchanges with the one behind it and with the one before.
  struct MessageBytes {
    std::optional<std::int64_t> behind, before;
  };
  Indexed<Stage, MessageBytes> message_bytes_;
};

// What the stack's allocator reserves, expected, at least and at most: all but the process's own
// counts. `pending`: bytes that collectives hold on to.
void reserve(RankMemory& rank, double pending, const StackMemory& m) {
  // The process's own bytes are outside the allocator: they do not fragment.
  Bytes& overhead = rank.at_peak[MemoryKind::overhead];
  rank.process = overhead;
  const Bytes tensors = rank.peak - overhead;
  const Bytes held(static_cast<std::int64_t>(pending));
  const auto allocated = static_cast<double>((tensors + held).count());
  const double expected = allocated * m.reserved_expected;
  const auto with_process = [process = overhead](double bytes) {
    return process + Bytes(static_cast<std::int64_t>(bytes));
  };
  rank.peak = with_process(expected);
  // How many buffers wait depends on timing, so they widen the range both ways.
  if (held.count() > 0) {
    rank.upper = with_process(expected * m.pending_spread);
    rank.least = with_process(expected / m.pending_spread);
  } else {
    rank.upper = with_process(allocated * m.reserved_most);
    rank.least = with_process(allocated);
  }
  rank.at_peak[MemoryKind::workspace] += held;
  overhead = rank.peak - tensors - held;
}

using Event = MemoryEvents::Event;
using Phase = MemoryEvents::Phase;

// Of one lane or several: ordered by two numbers, the phase above the operation in the second,
// since a large step has a million.
struct Moment {
  std::int64_t time;
  std::uint64_t order;
  auto operator<=>(const Moment&) const = default;
};

template <class TimesOf>
class Moments {
 public:
  Moments(const Program& program, const TimesOf& times) : program_(program), times_(times) {}

  // A lane's come in order, but for those of actions of no length: lanes are merged, and the many
  // of the compute lane once.
  void collect(Rank rank, const std::vector<LaneId>& messages, std::vector<Event>& events) {
    computes_.clear();
    sends_.clear();
    for (const OperationId id : program_.compute_lane(rank).operations()) add_compute(id);
    merge(computes_, 0);
    for (const LaneId lane : messages) {
      const std::size_t before = sends_.size();
      for (const OperationId id : program_.lane(lane).operations())
        add(sends_, times_(id).first, Phase::sends, id);
      merge(sends_, before);
    }
    events.reserve(computes_.size() + sends_.size());
    auto send = sends_.begin();
    for (const Moment& compute : computes_) {
      for (; send != sends_.end() && *send < compute; ++send) events.push_back(event(*send));
      events.push_back(event(compute));
    }
    for (; send != sends_.end(); ++send) events.push_back(event(*send));
  }

 private:
  static Event event(const Moment& moment) {
    return {OperationId{static_cast<std::int32_t>(moment.order & 0xffffffff)},
            static_cast<Phase>(moment.order >> 32)};
  }
  static void add(std::vector<Moment>& to, std::int64_t time, Phase phase, OperationId id) {
    to.push_back({time, static_cast<std::uint64_t>(phase) << 32 | at(id.value)});
  }
  void add_compute(OperationId id) {
    const auto [start, end] = times_(id);
    if (start == end) return add(computes_, start, Phase::at_once, id);
    add(computes_, start, Phase::starts, id);
    add(computes_, end, Phase::ends, id);
  }
  static void merge(std::vector<Moment>& moments, std::size_t from) {
    const auto middle = moments.begin() + static_cast<std::ptrdiff_t>(from);
    if (!std::is_sorted(middle, moments.end())) std::sort(middle, moments.end());
    std::inplace_merge(moments.begin(), middle, moments.end());
  }

  const Program& program_;
  const TimesOf& times_;
  std::vector<Moment> computes_, sends_;
};

// `times`: start and end of an operation.
template <class TimesOf>
Indexed<Rank, std::vector<Event>> events_by_rank(const Program& program, const TimesOf& times) {
  Indexed<Rank, std::vector<LaneId>> messages(program.shape().ranks);  // from the rank and to it
  for (const Edge& edge : program.edges()) {
    messages[edge.from].push_back(edge.send_lane);
    messages[edge.to].push_back(edge.send_lane);
  }
  Indexed<Rank, std::vector<Event>> events(program.shape().ranks);
  Moments moments(program, times);
  for (const Rank rank : events.ids()) moments.collect(rank, messages[rank], events[rank]);
  return events;
}

}  // namespace

Bytes RankMemory::peak_as(MemoryCount count) const {
  switch (count) {
    case MemoryCount::device:
      return peak;
    case MemoryCount::reserved:
      return peak - process;
    case MemoryCount::allocated:
      break;
  }
  // What is reserved and unused stands beside the process's own.
  return peak - at_peak[MemoryKind::overhead];
}

MemoryEvents::MemoryEvents(const Program& program, const PerOperation<std::int64_t>& start_ns,
                           const PerOperation<std::int64_t>& end_ns)
    : by_rank_(events_by_rank(
          program, [&](OperationId id) { return std::pair(start_ns[id], end_ns[id]); })) {}

MemoryEvents::MemoryEvents(const Program& program, IndexedView<OperationId, const Span> spans) {
  if (spans.size() == 0) return;
  by_rank_ = events_by_rank(program, [&](OperationId id) {
    return std::pair(spans[id].start.count(), spans[id].end.count());
  });
}

std::vector<RankMemory> memory_peaks(const ResolvedPlan& loaded, const Program& program,
                                     IndexedView<OperationId, const Span> spans,
                                     std::span<const Bytes> scratch, const MemoryRules& rules) {
  return memory_peaks(loaded, program, MemoryEvents(program, spans), scratch, rules);
}

std::vector<RankMemory> memory_peaks(const ResolvedPlan& loaded, const Program& program,
                                     const MemoryEvents& events, std::span<const Bytes> scratch,
                                     const MemoryRules& rules) {
  Timeline timeline(loaded, program, scratch, rules);
  timeline.replay(events, [](const Event&, std::size_t) {});
  std::vector<RankMemory> peaks = timeline.peaks();
  const auto buffer = static_cast<double>(gathered_bytes(loaded.plan, loaded.model));
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    const double buffers = pending_buffers(loaded, Rank{static_cast<std::int32_t>(rank)},
                                           timeline.most_in_flight(rank), rules);
    reserve(peaks[rank], buffers * buffer, rules.stack.memory);
  }
  return peaks;
}

std::vector<Counter> memory_counters(const ResolvedPlan& loaded, const Program& program,
                                     IndexedView<OperationId, const Span> spans,
                                     std::span<const Bytes> scratch, const MemoryRules& rules) {
  Timeline timeline(loaded, program, scratch, rules);
  const auto ranks = at(program.shape().ranks);
  std::vector<Counter> counters;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Rank of{static_cast<std::int32_t>(rank)};
    counters.push_back({"memory", of, CounterUnit::bytes, {}});
    for (const MemoryKind kind : kMemoryKinds) {
      counters.push_back({"memory/" + std::string(to_string(kind)), of, CounterUnit::bytes, {}});
    }
    counters.push_back({"in flight", of, CounterUnit::count, {}});
  }
  const std::size_t each = kMemoryKinds.size() + 2;
  const auto put = [](Counter& counter, std::int64_t time, std::int64_t value) {
    // Only changes are kept, and of one moment only the last.
    if (!counter.samples.empty() && counter.samples.back().value == value) return;
    if (!counter.samples.empty() && counter.samples.back().time.count() == time)
      counter.samples.pop_back();
    counter.samples.push_back({Nanoseconds(time), value});
  };
  timeline.replay(MemoryEvents(program, spans), [&](const Event& event, std::size_t rank) {
    const Span& span = spans[event.id];
    const std::int64_t time = (event.phase == Phase::ends ? span.end : span.start).count();
    Counter* counter = &counters[rank * each];
    put(*counter++, time, total(timeline.live(rank)));
    for (const MemoryKind kind : kMemoryKinds) put(*counter++, time, timeline.live(rank)[kind]);
    put(*counter, time, timeline.in_flight(rank));
  });
  return counters;
}

}  // namespace weir
