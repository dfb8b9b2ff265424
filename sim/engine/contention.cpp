// Time advances from event to event. At one instant ends come before starts, so that what ended
// frees its share before others begin; then rates are solved anew, and whatever changed its rate
// gets a new end.
// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/contention.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "plan/program/deadlock.hpp"
#include "sim/engine/max_min.hpp"

namespace weir {
namespace {

class ContentionEngine {
 public:
  ContentionEngine(const Program& program, const OperationCosts& costs,
                   const Contention& contention)
      : program_(program), costs_(costs), contention_(contention) {}

  std::variant<Timing, Stuck> run() {
    prepare();
    while (!events_.empty()) {
      const std::int64_t now = events_.top().time;
      // All events of this instant before rates are solved: several may change them, and once is
      // enough.
      while (!events_.empty() && events_.top().time == now) {
        const Event event = events_.top();
        events_.pop();
        if (event.kind == EventKind::start) {
          start(event.operation, now);
        } else if (event.version == version_[event.operation]) {
          // One of an older version was foreseen at another rate: another event stands for it.
          end(event.operation, now);
        }
      }
      if (rates_stale_) solve(now);
    }
    if (ended_ < program_.size()) return Stuck{describe_deadlock(program_)};
    return std::move(timing_);
  }

 private:
  // Ends before starts: what ends now no longer slows what starts now.
  enum class EventKind : std::uint8_t { end, start };
  struct Event {
    std::int64_t time;
    EventKind kind;
    std::int32_t rank;
    OperationId operation;
    std::int32_t version;
    bool operator>(const Event& other) const {
      return std::tie(time, kind, rank, operation) >
             std::tie(other.time, other.kind, other.rank, other.operation);
    }
  };
  struct Running {
    OperationId operation;
    double work_left;  // nanoseconds at full speed
    double rate = 1;
    std::int64_t since;  // when work_left was true
  };

  void prepare() {
    timing_.start_ns.assign(program_.size(), 0);
    timing_.end_ns.assign(program_.size(), 0);
    waiting_.assign(program_.size(), 0);
    version_.assign(program_.size(), 0);
    std::int32_t devices = 0;
    for (const std::int32_t device : contention_.device_of_rank)
      devices = std::max(devices, device + 1);
    capacities_ = contention_.capacities;
    // A device is a resource of its own, behind the shared links; ranks that share one share its
    // speed.
    first_device_ = static_cast<std::int32_t>(capacities_.size());
    capacities_.resize(capacities_.size() + static_cast<std::size_t>(devices),
                       contention_.device_speed);
    for (const OperationId id : program_.ids()) {
      waiting_[id] = static_cast<std::int32_t>(program_.predecessors(id).size()) +
                     (program_.previous(id) == kNoOperation ? 0 : 1);
    }
    for (const OperationId id : program_.ids()) {
      if (waiting_[id] == 0) ready(id, 0);
    }
  }

  // Everything it waits for has ended.
  void ready(OperationId id, std::int64_t now) {
    const Lane& lane = program_.lane_of(id);
    if (lane.kind == LaneKind::receive) {
      // Spans from the start of its send, and arrives its latency after the send's end, in order.
      const OperationId send = program_.peer(id), previous = program_.previous(id);
      const std::int64_t before = previous == kNoOperation ? 0 : timing_.end_ns[previous];
      timing_.start_ns[id] = std::max(timing_.start_ns[send], before);
      const std::int64_t arrival = std::max(timing_.end_ns[send] + costs_.duration_ns[id], before);
      events_.push({arrival, EventKind::end, lane.rank.value, id, version_[id]});
      return;
    }
    const std::int64_t gap = costs_.gap_ns.empty() ? 0 : costs_.gap_ns[id];
    events_.push({now + gap, EventKind::start, lane.rank.value, id, 0});
  }

  void start(OperationId id, std::int64_t now) {
    timing_.start_ns[id] = now;
    const std::int64_t duration = costs_.duration_ns[id];
    const LaneKind kind = program_.lane_of(id).kind;
    events_.push({now + duration, EventKind::end, program_.rank_of(id).value, id, version_[id]});
    // What takes no time needs no rate. A reduction's time is its price: it shares nothing here.
    if (duration == 0 || kind == LaneKind::reduce) return;
    running_.push_back({id, static_cast<double>(duration), 1.0, now});
    rates_stale_ = true;
  }

  void end(OperationId id, std::int64_t now) {
    timing_.end_ns[id] = now;
    timing_.makespan = std::max(timing_.makespan, Nanoseconds(now));
    ++ended_;
    const auto found =
        std::ranges::find_if(running_, [id](const Running& r) { return r.operation == id; });
    if (found != running_.end()) {
      running_.erase(found);
      rates_stale_ = true;
    }
    for (const OperationId next : program_.successors(id)) release(next, now);
    if (const OperationId next = program_.next(id); next != kNoOperation) release(next, now);
  }
  void release(OperationId id, std::int64_t now) {
    if (--waiting_[id] == 0) ready(id, now);
  }

  [[nodiscard]] bool is_transfer(OperationId id) const {
    return program_.lane_of(id).kind == LaneKind::send;
  }
  [[nodiscard]] Flow flow_of(OperationId id) const {
    const Lane& lane = program_.lane_of(id);
    if (is_transfer(id)) {
      if (contention_.edges.empty()) return {1.0, {}};
      const Contention::EdgeLink& link = contention_.edges[lane.edge];
      return {link.bandwidth, link.shared};
    }
    if (contention_.device_of_rank.empty()) return {1.0, {}};
    return {1.0, {first_device_ + contention_.device_of_rank[lane.rank]}};
  }

  void solve(std::int64_t now) {
    rates_stale_ = false;
    std::vector<Flow> flows;
    Indexed<Rank, bool> computes(program_.shape().ranks), transfers(program_.shape().ranks);
    for (const Running& r : running_) {
      flows.push_back(flow_of(r.operation));
      if (is_transfer(r.operation)) {
        transfers[program_.edge_of(r.operation).from] =
            transfers[program_.edge_of(r.operation).to] = true;
      } else {
        computes[program_.rank_of(r.operation)] = true;
      }
    }
    const std::vector<double> rates = max_min_rates(flows, capacities_);
    for (std::size_t i = 0; i < running_.size(); ++i) {
      Running& r = running_[i];
      // As a share of what the flow has when it is alone.
      double rate = rates[i] / flows[i].limit;
      if (is_transfer(r.operation)) {
        const Edge& edge = program_.edge_of(r.operation);
        if (computes[edge.from] || computes[edge.to]) rate *= 1 - contention_.transfer_slowdown;
      } else if (transfers[program_.rank_of(r.operation)]) {
        rate *= 1 - contention_.compute_slowdown;
      }
      // Its end stands as it is.
      if (rate == r.rate) continue;
      // What was done until now was done at the old rate; rounding may leave less than nothing.
      r.work_left = std::max(0.0, r.work_left - static_cast<double>(now - r.since) * r.rate);
      r.since = now;
      r.rate = rate;
      constexpr double kRoundOff =
          1e-6;  // ns: a whole number that arithmetic missed by a hair is that number
      const auto left = static_cast<std::int64_t>(std::ceil(r.work_left / rate - kRoundOff));
      events_.push({now + std::max<std::int64_t>(left, 0), EventKind::end,
                    program_.rank_of(r.operation).value, r.operation, ++version_[r.operation]});
    }
  }

  const Program& program_;
  const OperationCosts& costs_;
  const Contention& contention_;
  Timing timing_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Running> running_;        // in order of their starts
  PerOperation<std::int32_t> waiting_;  // predecessors that have not ended
  PerOperation<std::int32_t> version_;  // of an operation's end; older ends are void
  std::vector<double> capacities_;      // shared links, then devices
  std::int32_t first_device_ = 0;
  std::size_t ended_ = 0;
  bool rates_stale_ = false;
};

}  // namespace

Contention shared_node_links(const Program& program, const Cluster& cluster, int devices_per_rank) {
  Contention contention;
  if (cluster.node_bandwidth.count() <= 0) return contention;
  const auto node = [&](Rank rank) {
    return rank.value * devices_per_rank / cluster.devices_per_node;
  };
  const std::int32_t nodes = node(Rank{program.shape().ranks - 1}) + 1;
  if (nodes == 1) return contention;
  // A card takes as much each way: a node has one capacity for what leaves and one for what comes.
  contention.capacities.assign(2 * static_cast<std::size_t>(nodes), cluster.node_bandwidth.count());
  for (const Edge& edge : program.edges()) {
    const Link& used = node(edge.from) == node(edge.to) ? cluster.intra : cluster.inter;
    // The devices of a rank send their parts beside each other.
    Contention::EdgeLink link{used.bandwidth.count() * devices_per_rank, {}};
    if (node(edge.from) != node(edge.to))
      link.shared = {2 * node(edge.from), 2 * node(edge.to) + 1};
    contention.edges.push_back(std::move(link));
  }
  return contention;
}

Contention shared_node_links(const Program& program, const Cluster& cluster,
                             const Placement& placement, int devices_per_rank) {
  Contention contention;
  // By node and way, where its pool says what its cards take.
  std::map<std::pair<std::int64_t, bool>, std::int32_t> shared;
  const auto share = [&](Rank rank, bool leaves, Contention::EdgeLink& link) {
    const Cluster& pool = cluster.kind(placement.kinds(rank).front());
    if (pool.node_bandwidth.count() <= 0) return;
    const auto [at, is_new] = shared.try_emplace(
        {placement.node(rank), leaves}, static_cast<std::int32_t>(contention.capacities.size()));
    if (is_new) contention.capacities.push_back(pool.node_bandwidth.count());
    link.shared.push_back(at->second);
  };
  for (const Edge& edge : program.edges()) {
    const Link used = placement.link(edge.from, edge.to);
    Contention::EdgeLink link{used.bandwidth.count() * devices_per_rank, {}};
    if (placement.node(edge.from) != placement.node(edge.to)) {
      share(edge.from, true, link);
      share(edge.to, false, link);
    }
    contention.edges.push_back(std::move(link));
  }
  // No card is shared, so no message slows another: without edges the plain engine may do.
  if (contention.capacities.empty()) contention.edges.clear();
  return contention;
}

std::variant<Timing, Stuck> simulate(const Program& program, const OperationCosts& costs,
                                     const Contention& contention) {
  if (contention.none()) return simulate(program, costs);
  return ContentionEngine(program, costs, contention).run();
}

}  // namespace weir
