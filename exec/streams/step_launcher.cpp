// SPDX-License-Identifier: Apache-2.0
#include "exec/streams/step_launcher.hpp"

#include <algorithm>
#include <utility>

#include "exec/streams/launch_order.hpp"

namespace weir {
namespace {
std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
}  // namespace

StepLauncher::StepLauncher(const Program& program, const std::vector<Mail>& mail,
                           std::vector<LaunchedRank> ranks, Now now, OtherProcesses others)
    : program_(program),
      mail_(mail),
      ranks_(std::move(ranks)),
      now_(now),
      others_(std::move(others)),
      begin_(program.operations.size()),
      end_(program.operations.size()) {
  for (const OperationId id : launch_order(program)) {
    if (!here(program.lane_of(id).rank)) continue;
    order_.push_back(id);
    if (program.lane_of(id).kind == LaneKind::reduce) last_reduction_ = id;
  }
  for (const Operation& operation : program.operations)
    names_.push_back(to_string(operation.action));
  const auto first = std::find_if(ranks_.begin(), ranks_.end(),
                                  [](const LaunchedRank& rank) { return rank.backend != nullptr; });
  origin_ = first->backend->queue();
  open_lanes();
  make_marks();
}

bool StepLauncher::here(Rank rank) const { return ranks_[at(rank.value)].backend != nullptr; }

void StepLauncher::open_lanes() {
  lanes_.resize(program_.edges.size());
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const Edge& edge = program_.edges[i];
    if (here(edge.from) && here(edge.to)) {
      LaunchQueue& from = *ranks_[at(edge.from.value)].backend->queue();
      if (from.device() == ranks_[at(edge.to.value)].backend->queue()->device()) continue;
      copying_.push_back(from.make_lane());
      lanes_[i] = copying_.back().get();
    } else if (here(edge.from) || here(edge.to)) {
      lanes_[i] = &others_.transport->edge_queue(static_cast<std::int32_t>(i));
    }
  }
}

// Where a lane's operations are launched; null where nothing is.
LaunchQueue* StepLauncher::queue_of(const Lane& lane) const {
  if (!here(lane.rank)) return nullptr;
  switch (lane.kind) {
    case LaneKind::compute:
      return ranks_[at(lane.rank.value)].backend->queue();
    case LaneKind::send:
      return lanes_[at(lane.edge)];
    case LaneKind::receive:
      return here(program_.edges[at(lane.edge)].from) ? nullptr : lanes_[at(lane.edge)];
    default:
      return others_.transport == nullptr ? nullptr : &others_.transport->gradient_queue();
  }
}

void StepLauncher::make_marks() {
  fork_ = origin_->make_mark();
  done_ = origin_->make_mark();
  for (const Lane& lane : program_.lanes) {
    LaunchQueue* queue = queue_of(lane);
    if (queue == nullptr) continue;
    for (OperationId id = lane.first; id < lane.last; ++id) {
      begin_[at(id)] = queue->make_mark();
      end_[at(id)] = queue->make_mark();
    }
    if (queue != origin_) joins_.push_back(queue->make_mark());
  }
  for (const LaunchedRank& rank : ranks_) {
    if (rank.backend == nullptr) continue;
    LaunchQueue& queue = *rank.backend->queue();
    if (!clocks_.contains(queue.device()))
      clocks_[queue.device()] = {rank.backend, queue.make_mark(), 0};
  }
}

StepLauncher::~StepLauncher() {
  if (under_way_ && others_.transport != nullptr) others_.transport->abandon();
  for (const LaunchedRank& rank : ranks_) {
    try {
      if (rank.backend != nullptr) rank.backend->finish();
    } catch (...) {  // the step's own error is on its way
    }
  }
}

void StepLauncher::begin_step(std::uint32_t step) {
  for (const LaunchedRank& rank : ranks_) {
    if (rank.work != nullptr) rank.work->begin_step(step);
  }
  start_clocks();
}

LaunchedStep StepLauncher::run_step(StepClock& clock) {
  LaunchedStep window;
  window.start_ns = now_();
  under_way_ = true;
  if (recorder_) {
    recorder_->replay();
  } else {
    launch_all();
  }
  window.launching_ns = now_() - window.start_ns;
  finish_step();
  under_way_ = false;
  window.end_ns = now_();
  for (const LaunchedRank& rank : ranks_) {
    if (rank.backend == nullptr) continue;
    rank.arena->end_step();
    rank.work->end_step();
  }
  adjust_clocks(window);
  read_times(window, clock);
  return window;
}

void StepLauncher::repeat() {
  auto recorder = origin_->make_recorder();
  recorder->begin();
  launch_all();
  recorder->end();
  for (const LaunchedRank& rank : ranks_) rank.arena->end_step();
  recorder_ = std::move(recorder);
}

void StepLauncher::launch_all() {
  origin_->record(fork_);
  for (const Mark& join : joins_) join.of->wait_for(fork_);
  for (const OperationId id : order_) launch(id);
  for (const Mark& join : joins_) {
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
      if (LaunchQueue* queue = queue_of(lane)) receive(id, *queue);
      return;
    case LaneKind::reduce:
      if (others_.transport != nullptr) reduce(id);
  }
}

void StepLauncher::compute(OperationId id) {
  const LaunchedRank& rank = ranks_[at(program_.lane_of(id).rank.value)];
  LaunchQueue& queue = *rank.backend->queue();
  const Mail& mail = mail_[at(id)];
  Tensor incoming;
  if (mail.receive_edge >= 0) {
    const Lane& sends = program_.lanes[at(program_.edges[at(mail.receive_edge)].send_lane)];
    incoming = messages_.extract(sends.first + mail.receive_index).mapped();
  } else if (mail.local_producer >= 0) {
    incoming = messages_.extract(mail.local_producer).mapped();
  }
  const Action& action = program_.operations[at(id)].action;
  await_predecessors(queue, id);
  rank.arena->begin_action(end_[at(id)]);
  queue.begin_action(names_[at(id)]);
  queue.record(begin_[at(id)]);
  const Tensor outgoing = rank.work->act(id, action, incoming);
  queue.record(end_[at(id)]);
  queue.end_action();
  if (mail.send_edge >= 0) {
    const Lane& sends = program_.lanes[at(program_.edges[at(mail.send_edge)].send_lane)];
    messages_[sends.first + mail.send_index] = outgoing;
  } else if (mail.feeds_local) {
    messages_[id] = outgoing;
  }
}

void StepLauncher::send(OperationId id) {
  const Edge& edge = program_.edges[at(program_.lane_of(id).edge)];
  Tensor& message = messages_.at(id);
  LaunchQueue* lane = lanes_[at(program_.lane_of(id).edge)];
  if (lane == nullptr) {
    ranks_[at(edge.from.value)].arena->hand_over(message, *ranks_[at(edge.to.value)].arena);
  } else if (!here(edge.to)) {
    send_away(id, *lane);
  } else {
    copy(id, *lane, message);
  }
}

void StepLauncher::copy(OperationId id, LaunchQueue& lane, Tensor& message) {
  const Edge& edge = program_.edges[at(program_.lane_of(id).edge)];
  const LaunchedRank& from = ranks_[at(edge.from.value)];
  const LaunchedRank& to = ranks_[at(edge.to.value)];
  await_predecessors(lane, id);
  const Tensor received = to.arena->allocate_for(message.bytes, lane);
  lane.begin_action(names_[at(id)]);
  lane.record(begin_[at(id)]);
  lane.copy(message, received, *to.backend->queue());
  lane.discard(message);
  lane.record(end_[at(id)]);
  lane.end_action();
  from.arena->release_after(message, end_[at(id)]);
  message = received;
}

void StepLauncher::send_away(OperationId id, LaunchQueue& lane) {
  Tensor message = messages_.extract(id).mapped();
  await_predecessors(lane, id);
  lane.begin_action(names_[at(id)]);
  lane.record(begin_[at(id)]);
  others_.transport->send(program_.lane_of(id).edge, message);
  lane.discard(message);
  lane.record(end_[at(id)]);
  lane.end_action();
  ranks_[at(program_.lane_of(id).rank.value)].arena->release_after(message, end_[at(id)]);
}

// Its memory is the receive slot: the consumer that freed the slot has been waited for.
void StepLauncher::receive(OperationId id, LaunchQueue& lane) {
  const Lane& receives = program_.lane_of(id);
  await_predecessors(lane, id);
  const Tensor into =
      ranks_[at(receives.rank.value)].arena->allocate_for((*others_.message_bytes)[at(id)], lane);
  lane.begin_action(names_[at(id)]);
  lane.record(begin_[at(id)]);
  others_.transport->receive(receives.edge, into);
  lane.record(end_[at(id)]);
  lane.end_action();
  const Lane& sends = program_.lanes[at(program_.edges[at(receives.edge)].send_lane)];
  messages_[sends.first + (id - receives.first)] = into;
}

// Sums a stage's gradients over the replicas; the last reduction of the step also exchanges those
// of tied weights.
void StepLauncher::reduce(OperationId id) {
  LaunchQueue& queue = others_.transport->gradient_queue();
  await_predecessors(queue, id);
  queue.begin_action(names_[at(id)]);
  queue.record(begin_[at(id)]);
  others_.gradients->launch_sum(program_.operations[at(id)].action.stage);
  if (id == last_reduction_ && others_.gradients->exchanges()) others_.gradients->launch_exchange();
  queue.record(end_[at(id)]);
  queue.end_action();
}

void StepLauncher::await_predecessors(LaunchQueue& waiting, OperationId id) const {
  std::set<OperationId> launched;
  add_launched_before(id, launched);
  const bool reduces = program_.operations[at(id)].action.kind == ActionKind::OPTIMIZER &&
                       !program_.predecessors(id).empty();
  if (reduces && others_.transport != nullptr)
    launched.insert(last_reduction_);  // copies of other processes are there
  for (const OperationId before : launched) {
    const Mark& end = end_[at(before)];
    if (end.of != &waiting) waiting.wait_for(end);
  }
}

// An operation of which nothing is launched (a receive, a reduction in place, a message handed
// over) has ended when what it waits for has. What another process launches is awaited by its
// transport, on the queue; but a message comes only into a slot that its last consumer, here, has
// left.
void StepLauncher::add_launched_before(OperationId id, std::set<OperationId>& launched) const {
  for (const Dependency& dependency : program_.predecessors(id)) {
    if (end_[at(dependency.before)].of != nullptr) {
      launched.insert(dependency.before);
    } else if (here(program_.lane_of(id).rank)) {
      add_launched_before(dependency.before, launched);
    }
  }
}

void StepLauncher::finish_step() {
  if (others_.wait_until) {
    others_.wait_until([this] {
      others_.transport->check();
      return origin_->reached(done_);
    });
  }
  finish_devices();
}

void StepLauncher::finish_devices() {
  for (const LaunchedRank& rank : ranks_) {
    if (rank.backend != nullptr) rank.backend->finish();
  }
}

// Every device is idle, so its base mark is reached between the two readings of the host's clock.
void StepLauncher::start_clocks() {
  finish_devices();
  for (auto& [device, clock] : clocks_) {
    const std::int64_t before = now_();
    clock.base.of->record(clock.base);
    clock.of->finish();
    clock.at_ns = before + (now_() - before) / 2;
  }
}

std::int64_t StepLauncher::time_of(const Mark& mark) const {
  const DeviceClock& clock = clocks_.at(mark.of->device());
  return clock.at_ns + mark.of->ns_between(clock.base, mark);
}

// The host may have been interrupted while it read a base mark. All that a device did lies within
// the step, so its clock is moved until it does.
void StepLauncher::adjust_clocks(const LaunchedStep& window) {
  for (auto& [device, clock] : clocks_) {
    std::int64_t first = window.end_ns, last = window.start_ns;
    for (std::size_t id = 0; id < end_.size(); ++id) {
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
    std::int64_t ready = window.start_ns;
    if (id > lane.first) ready = std::max(ready, clock.end_ns[at(id) - 1]);
    for (const Dependency& dependency : program_.predecessors(id)) {
      if (here(program_.lane_of(dependency.before).rank)) {
        ready = std::max(ready, clock.end_ns[at(dependency.before)]);
      }
    }
    std::int64_t start = ready, end = ready;
    if (lane.kind == LaneKind::receive && end_[at(id)].of == nullptr) {
      start = clock.start_ns[at(program_.predecessors(id).front().before)];
    } else if (end_[at(id)].of != nullptr) {
      start = std::clamp(time_of(begin_[at(id)]), ready, window.end_ns);
      end = std::clamp(time_of(end_[at(id)]), start, window.end_ns);
    }
    clock.start_ns[at(id)] = start;
    clock.end_ns[at(id)] = end;
  }
}

}  // namespace weir
