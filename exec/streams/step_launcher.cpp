// Launches a step: each operation behind the events of all it waits for, then one wait for the
// end, and the times that the events kept.
// SPDX-License-Identifier: Apache-2.0
#include "exec/streams/step_launcher.hpp"

#include <algorithm>
#include <utility>

#include "exec/streams/launch_order.hpp"
#include "plan/words/error.hpp"

namespace weir {
StepLauncher::StepLauncher(const Program& program, const std::vector<MessageRoute>& routes,
                           std::vector<LocalRank> ranks, Now now, OtherProcesses others,
                           StreamNorm* norm)
    : program_(program),
      routes_(routes),
      ranks_(std::move(ranks)),
      now_(now),
      others_(std::move(others)),
      norm_(norm),
      begin_(program.size()),
      end_(program.size()) {
  for (const MessageRoute& route : routes) {
    if (!route.send_skips.empty())
      throw MissingComponent("skips go directly where actions are run one by one, on a CPU");
  }
  // Every process finds the same order and keeps its own part of it.
  for (const OperationId id : launch_order(program)) {
    if (!here(program.rank_of(id))) continue;
    order_.push_back(id);
    if (program.lane_of(id).kind == LaneKind::reduce) last_reduction_ = id;
  }
  for (const Operation& operation : program.operations())
    names_.push_back(to_string(operation.action));
  const auto first = std::find_if(ranks_.begin(), ranks_.end(),
                                  [](const LocalRank& rank) { return rank.backend != nullptr; });
  origin_ = first->backend->stream();
  open_edge_streams();
  make_events();
}

bool StepLauncher::here(Rank rank) const { return ranks_[rank.position()].backend != nullptr; }

void StepLauncher::open_edge_streams() {
  edge_streams_.resize(program_.edges().size());
  for (const EdgeId id : edge_streams_.ids()) {
    const Edge& edge = program_.edge(id);
    if (here(edge.from) && here(edge.to)) {
      Stream& from = *ranks_[edge.from.position()].backend->stream();
      // One device: the message is handed over and the edge needs no stream.
      if (from.device() == ranks_[edge.to.position()].backend->stream()->device()) continue;
      copying_.push_back(from.make_side_stream());
      edge_streams_[id] = copying_.back().get();
    } else if (here(edge.from) || here(edge.to)) {
      edge_streams_[id] = &others_.transport->edge_stream(id.value);
    }
  }
}

// Where a lane's operations are launched; null where nothing is.
Stream* StepLauncher::stream_of(const Lane& lane) const {
  if (!here(lane.rank)) return nullptr;
  switch (lane.kind) {
    case LaneKind::compute:
      return ranks_[lane.rank.position()].backend->stream();
    case LaneKind::send:
      return edge_streams_[lane.edge];
    case LaneKind::receive:
      return here(program_.edge(lane.edge).from) ? nullptr : edge_streams_[lane.edge];
    default:
      if (others_.transport != nullptr) return &others_.transport->gradient_stream();
      // In one process gradients are read where they are; of a norm the squares are made.
      return norm_ == nullptr ? nullptr : ranks_[lane.rank.position()].backend->stream();
  }
}

// Events are made once and recorded anew in every step, so that a step allocates none.
void StepLauncher::make_events() {
  fork_ = origin_->make_event();
  done_ = origin_->make_event();
  for (const Lane& lane : program_.lanes()) {
    Stream* stream = stream_of(lane);
    if (stream == nullptr) continue;
    for (const OperationId id : lane.operations()) {
      begin_[id] = stream->make_event();
      end_[id] = stream->make_event();
    }
    if (stream != origin_) joins_.push_back(stream->make_event());
  }
  for (const LocalRank& rank : ranks_) {
    if (rank.backend == nullptr) continue;
    Stream& stream = *rank.backend->stream();
    if (!clocks_.contains(stream.device()))
      clocks_[stream.device()] = {rank.backend, stream.make_event(), 0};
  }
}

StepLauncher::~StepLauncher() {
  // A message that no other process will answer would hold its stream, and `finish`, for ever.
  if (under_way_ && others_.transport != nullptr) others_.transport->abandon();
  for (const LocalRank& rank : ranks_) {
    try {
      if (rank.backend != nullptr) rank.backend->finish();
    } catch (...) {  // the step's own error is on its way
    }
  }
}

void StepLauncher::begin_step(std::uint32_t step) {
  for (const LocalRank& rank : ranks_) {
    if (rank.handler != nullptr) rank.handler->begin_step(step);
  }
  start_clocks();
}

LaunchedStep StepLauncher::run_step(StepClock& clock) {
  LaunchedStep window;
  window.start_ns = now_();
  under_way_ = true;  // from the first launch until the host has seen the end
  if (capture_) {
    capture_->replay();
  } else {
    launch_all();
  }
  window.launching_ns = now_() - window.start_ns;
  finish_step();
  under_way_ = false;
  window.end_ns = now_();
  for (const LocalRank& rank : ranks_) {
    if (rank.backend == nullptr) continue;
    rank.arena->end_step();
    rank.handler->end_step();
    rank.handler->read_rebuilds(clock);
  }
  adjust_clocks(window);
  read_times(window, clock);
  return window;
}

void StepLauncher::repeat() {
  // Captured work is not run: only the replays are. `capture_` is set last, so that a capture that
  // throws leaves the launcher as it was.
  auto capture = origin_->make_capture();
  capture->begin();
  launch_all();
  capture->end();
  for (const LocalRank& rank : ranks_) rank.arena->end_step();
  capture_ = std::move(capture);
}

// Nothing of a captured step has run, so what its launches left in the host's books is undone.
std::optional<std::string> StepLauncher::try_repeat() {
  std::vector<Arena::Books> books;
  for (const LocalRank& rank : ranks_) books.push_back(rank.arena->books());
  try {
    repeat();
    return std::nullopt;
  } catch (const RunFailed& refused) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].handler->forget_step();
      ranks_[rank].arena->restore(std::move(books[rank]));
    }
    messages_.clear();
    return refused.what();
  }
}

void StepLauncher::launch_all() {
  // The other streams begin behind the origin's `fork_` and end before its end: a capture holds all
  // of them, and one event tells the end of all.
  origin_->record(fork_);
  for (const Event& join : joins_) join.of->wait_for(fork_);
  for (const OperationId id : order_) launch(id);
  for (const Event& join : joins_) {
    join.of->record(join);
    origin_->wait_for(join);
  }
  if (others_.transport != nullptr) origin_->record(done_);
}

void StepLauncher::launch(OperationId id) {
  const Lane& lane = program_.lane_of(id);
  switch (lane.kind) {
    case LaneKind::compute:
      return compute(id);
    case LaneKind::send:
      return send(id);
    case LaneKind::receive:
      if (Stream* stream = stream_of(lane)) receive(id, *stream);
      return;
    case LaneKind::reduce:
      if (stream_of(lane) != nullptr) reduce(id);
  }
}

void StepLauncher::compute(OperationId id) {
  const LocalRank& rank = ranks_[program_.rank_of(id).position()];
  Stream& stream = *rank.backend->stream();
  const MessageRoute& route = routes_[id.position()];
  Tensor incoming;
  if (route.receive_edge >= 0) {
    const Lane& sends = program_.lane(program_.edge(EdgeId{route.receive_edge}).send_lane);
    incoming = messages_.extract(sends.first + route.receive_index).mapped();
  } else if (route.local_producer != kNoOperation) {
    incoming = messages_.extract(route.local_producer).mapped();
  }
  const Action& action = program_.op(id).action;
  await_predecessors(stream, id);
  // Where no gradient is reduced, devices that divide layers still sum some.
  if (action.kind == ActionKind::OPTIMIZER && others_.gradients != nullptr)
    others_.gradients->launch_partials();
  rank.arena->begin_action(end_[id]);  // what this action releases is in use until then
  stream.begin_action(names_[id]);
  stream.record(begin_[id]);
  if (action.kind == ActionKind::OPTIMIZER && norm_ != nullptr)
    norm_->launch_factor(program_.rank_of(id));
  const Tensor outgoing = rank.handler->act(id, action, {incoming}).main;
  stream.record(end_[id]);
  stream.end_action();
  if (route.send_edge >= 0) {
    const Lane& sends = program_.lane(program_.edge(EdgeId{route.send_edge}).send_lane);
    messages_[sends.first + route.send_index] = outgoing;
  } else if (route.feeds_local) {
    messages_[id] = outgoing;
  }
}

void StepLauncher::send(OperationId id) {
  const Edge& edge = program_.edge_of(id);
  Tensor& message = messages_.at(id);
  Stream* stream = edge_streams_[program_.lane_of(id).edge];
  if (stream == nullptr) {  // ranks of one device: the block changes accounts, nothing moves
    ranks_[edge.from.position()].arena->hand_over(message, *ranks_[edge.to.position()].arena);
  } else if (!here(edge.to)) {
    send_away(id, *stream);
  } else {
    copy(id, *stream, message);
  }
}

void StepLauncher::copy(OperationId id, Stream& stream, Tensor& message) {
  const Edge& edge = program_.edge_of(id);
  const LocalRank& from = ranks_[edge.from.position()];
  const LocalRank& to = ranks_[edge.to.position()];
  await_predecessors(stream, id);
  const Tensor received = to.arena->allocate_for(message.bytes, stream);
  stream.begin_action(names_[id]);
  stream.record(begin_[id]);
  stream.copy(message, received, *to.backend->stream());
  stream.discard(message);
  stream.record(end_[id]);  // behind the copy: the sender's block is free then
  stream.end_action();
  from.arena->release_after(message, end_[id]);
  message = received;
}

void StepLauncher::send_away(OperationId id, Stream& stream) {
  Tensor message = messages_.extract(id).mapped();
  await_predecessors(stream, id);
  stream.begin_action(names_[id]);
  stream.record(begin_[id]);
  others_.transport->send(program_.lane_of(id).edge.value, message);
  stream.discard(message);
  stream.record(end_[id]);
  stream.end_action();
  ranks_[program_.rank_of(id).position()].arena->release_after(message, end_[id]);
}

// Its memory is the receive slot: the consumer that freed the slot has been waited for.
void StepLauncher::receive(OperationId id, Stream& stream) {
  const Lane& receives = program_.lane_of(id);
  await_predecessors(stream, id);
  const Tensor into = ranks_[receives.rank.position()].arena->allocate_for(
      (*others_.message_bytes)[id.position()], stream);
  stream.begin_action(names_[id]);
  stream.record(begin_[id]);
  others_.transport->receive(receives.edge.value, into);
  stream.record(end_[id]);
  stream.end_action();
  const Lane& sends = program_.lane(program_.edge(receives.edge).send_lane);
  messages_[sends.first + (id - receives.first)] = into;
}

void StepLauncher::reduce(OperationId id) {
  Stream& stream = *stream_of(program_.lane_of(id));
  await_predecessors(stream, id);
  stream.begin_action(names_[id]);
  stream.record(begin_[id]);
  launch_reduction(id, program_.op(id).action.stage, stream);
  stream.record(end_[id]);
  stream.end_action();
}

// Sums a stage's gradients over the replicas; the last reduction of the step, behind which the rank
// has optimizers alone, also sums those that devices have parts of, exchanges those of tied weights
// and then, where gradients are clipped, all squares.
void StepLauncher::launch_reduction(OperationId id, Stage stage, Stream& stream) {
  if (others_.transport == nullptr) return norm_->launch_squares(stage, stream);
  others_.gradients->launch_sum(stage);
  if (id != last_reduction_) return;
  others_.gradients->launch_partials();
  if (others_.gradients->exchanges()) others_.gradients->launch_exchange();
  if (norm_ != nullptr) norm_->launch_all(*others_.transport);
}

void StepLauncher::await_predecessors(Stream& waiting, OperationId id) const {
  std::set<OperationId> launched;
  add_launched_before(id, launched);
  const bool reduces =
      program_.op(id).action.kind == ActionKind::OPTIMIZER && !program_.predecessors(id).empty();
  if (reduces && others_.transport != nullptr)
    launched.insert(last_reduction_);  // copies of other processes are there
  for (const OperationId before : launched) {
    const Event& end = end_[before];
    if (end.of != &waiting) waiting.wait_for(end);  // one stream is in order by itself
  }
}

// An operation of which nothing is launched (a receive, a reduction in place, a message handed
// over) has ended when what it waits for has. What another process launches is awaited by its
// transport, on the stream; but a message comes only into a slot that its last consumer, here, has
// left.
void StepLauncher::add_launched_before(OperationId id, std::set<OperationId>& launched) const {
  for (const Dependency& dependency : program_.predecessors(id)) {
    if (end_[dependency.before].of != nullptr) {
      launched.insert(dependency.before);
    } else if (here(program_.rank_of(id))) {
      add_launched_before(dependency.before, launched);
    }
  }
}

void StepLauncher::finish_step() {
  if (others_.wait_until) {
    others_.wait_until([this] {
      others_.transport->check();  // a broken connection would never reach the end
      return origin_->reached(done_);
    });
  }
  finish_devices();
}

void StepLauncher::finish_devices() {
  for (const LocalRank& rank : ranks_) {
    if (rank.backend != nullptr) rank.backend->finish();
  }
}

// Every device is idle, so its base event is reached between the two readings of the host's clock.
void StepLauncher::start_clocks() {
  finish_devices();
  for (auto& [device, clock] : clocks_) {
    const std::int64_t before = now_();
    clock.base.of->record(clock.base);
    clock.of->finish();
    clock.at_ns = before + (now_() - before) / 2;  // the middle: off by half the gap at most
  }
}

std::int64_t StepLauncher::time_of(const Event& event) const {
  const DeviceClock& clock = clocks_.at(event.of->device());
  return clock.at_ns + event.of->ns_between(clock.base, event);
}

// The host may have been interrupted while it read a base event. All that a device did lies within
// the step, so its clock is moved until it does.
void StepLauncher::adjust_clocks(const LaunchedStep& window) {
  for (auto& [device, clock] : clocks_) {
    std::int64_t first = window.end_ns, last = window.start_ns;
    for (const OperationId id : end_.ids()) {
      if (end_[id].of == nullptr || end_[id].of->device() != device) continue;
      first = std::min(first, time_of(begin_[id]));
      last = std::max(last, time_of(end_[id]));
    }
    clock.at_ns += std::min<std::int64_t>(window.end_ns - last, 0) +
                   std::max<std::int64_t>(window.start_ns - first, 0);
  }
}

// The clocks of two devices and the host's agree to some microseconds: nothing begins before what
// it waited for has ended, or lies outside the step.
void StepLauncher::read_times(const LaunchedStep& window, StepClock& clock) const {
  for (const OperationId id : order_) {
    const Lane& lane = program_.lane_of(id);
    // Clamped in launch order, in which all that an operation waits for comes before it.
    std::int64_t ready = window.start_ns;
    if (id > lane.first) ready = std::max(ready, clock.end_ns[id.position() - 1]);
    for (const Dependency& dependency : program_.predecessors(id)) {
      if (here(program_.rank_of(dependency.before))) {
        ready = std::max(ready, clock.end_ns[dependency.before.position()]);
      }
    }
    std::int64_t start = ready, end = ready;
    if (lane.kind == LaneKind::receive && end_[id].of == nullptr) {
      // Nothing is launched for it: the message was on its way from its send's start.
      start = clock.start_ns[program_.predecessors(id).front().before.position()];
    } else if (end_[id].of != nullptr) {
      start = std::clamp(time_of(begin_[id]), ready, window.end_ns);
      end = std::clamp(time_of(end_[id]), start, window.end_ns);
    }
    clock.start_ns[id.position()] = start;
    clock.end_ns[id.position()] = end;
  }
}

}  // namespace weir
