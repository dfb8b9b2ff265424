// Proof that a program ends, or the shortest circle of who waits for whom.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/deadlock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace weir {

std::optional<std::vector<OperationId>> find_cycle(const Program& program) {
  // Depth first from each operation to what it waits for; meeting an operation on the current path
  // closes a cycle.
  enum Colour : std::uint8_t { fresh, on_path, finished };
  std::vector<std::uint8_t> colour(program.operations.size(), fresh);
  struct Visit {
    OperationId id;
    std::int32_t next;  // -1: the lane predecessor, then indices into predecessors(id)
  };
  std::vector<Visit> path;
  for (OperationId root = 0; root < static_cast<OperationId>(program.operations.size()); ++root) {
    if (colour[static_cast<std::size_t>(root)] != fresh) continue;
    colour[static_cast<std::size_t>(root)] = on_path;
    path.push_back({root, -1});
    while (!path.empty()) {
      Visit& visit = path.back();
      const auto waits = program.predecessors(visit.id);
      if (visit.next == static_cast<std::int32_t>(waits.size())) {
        colour[static_cast<std::size_t>(visit.id)] = finished;
        path.pop_back();
        continue;
      }
      const bool lane = visit.next < 0;
      const OperationId before =
          lane ? visit.id - 1 : waits[static_cast<std::size_t>(visit.next)].before;
      ++visit.next;
      if (lane && program.lane_of(visit.id).first == visit.id) continue;
      auto& state = colour[static_cast<std::size_t>(before)];
      if (state == on_path) {
        auto start =
            std::find_if(path.begin(), path.end(), [&](const Visit& v) { return v.id == before; });
        std::vector<OperationId> cycle;
        for (; start != path.end(); ++start) cycle.push_back(start->id);
        return cycle;
      }
      if (state == fresh) {
        state = on_path;
        path.push_back({before, -1});
      }
    }
  }
  return std::nullopt;
}

std::optional<std::vector<OperationId>> shortest_cycle(const Program& program) {
  const std::size_t count = program.operations.size();
  const auto waits_for = [&](OperationId id, auto&& visit) {
    if (program.lane_of(id).first != id) visit(id - 1);
    for (const Dependency& d : program.predecessors(id)) visit(d.before);
  };
  // What can run, runs; cycles are among the rest.
  std::vector<std::int32_t> waiting(count, 0);
  std::vector<std::vector<OperationId>> successors(count);
  std::deque<OperationId> ready;
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<OperationId>(i);
    waits_for(id, [&](OperationId before) {
      ++waiting[i];
      successors[static_cast<std::size_t>(before)].push_back(id);
    });
    if (waiting[i] == 0) ready.push_back(id);
  }
  for (; !ready.empty(); ready.pop_front()) {
    for (const OperationId next : successors[static_cast<std::size_t>(ready.front())]) {
      if (--waiting[static_cast<std::size_t>(next)] == 0) ready.push_back(next);
    }
  }
  std::vector<OperationId> best;
  std::vector<OperationId> from(count), reached_by(count, -1);
  std::vector<std::size_t> depth(count, 0);
  for (std::size_t root = 0; root < count; ++root) {
    if (waiting[root] == 0) continue;
    const auto start = static_cast<OperationId>(root);
    std::deque<OperationId> queue{start};
    reached_by[root] = start;
    depth[root] = 1;
    bool closed = false;
    while (!queue.empty() && !closed) {
      const OperationId id = queue.front();
      queue.pop_front();
      const std::size_t here = depth[static_cast<std::size_t>(id)];
      if (!best.empty() && here >= best.size()) break;
      waits_for(id, [&](OperationId before) {
        const auto b = static_cast<std::size_t>(before);
        if (waiting[b] == 0 || closed) return;
        if (before == start) {
          closed = true;
          best.clear();
          for (OperationId step = id; step != start; step = from[static_cast<std::size_t>(step)])
            best.push_back(step);
          best.push_back(start);
          std::reverse(best.begin(), best.end());
        } else if (reached_by[b] != start) {
          reached_by[b] = start;
          from[b] = id;
          depth[b] = here + 1;
          queue.push_back(before);
        }
      });
    }
  }
  if (best.empty()) return std::nullopt;
  return best;
}

std::string describe_cycle(const Program& program, const std::vector<OperationId>& cycle) {
  const auto name = [&](OperationId id) {
    const Lane& lane = program.lane_of(id);
    const std::string action = to_string(program.operations[static_cast<std::size_t>(id)].action);
    switch (lane.kind) {
      case LaneKind::send:
        return fmt::format("{} on rank {}'s send lane to {}", action, lane.rank.value,
                           program.edges[static_cast<std::size_t>(lane.edge)].to.value);
      case LaneKind::receive:
        return fmt::format("{} on rank {}'s receive lane from {}", action, lane.rank.value,
                           program.edges[static_cast<std::size_t>(lane.edge)].from.value);
      case LaneKind::reduce:
        return fmt::format("{} on rank {}'s reduce lane", action, lane.rank.value);
      default:
        return fmt::format("{} on rank {}", action, lane.rank.value);
    }
  };
  std::string text;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const OperationId id = cycle[i];
    const OperationId before = cycle[(i + 1) % cycle.size()];
    const char* why = "its turn after";
    for (const Dependency& dependency : program.predecessors(id)) {
      if (dependency.before != before) continue;
      switch (dependency.kind) {
        case DependencyKind::data:
          why = "the data of";
          break;
        case DependencyKind::message:
          why = "the message of";
          break;
        case DependencyKind::slot:
          why = "the receive slot freed by";
          break;
        case DependencyKind::gradient:
          why = "the gradient of";
          break;
        case DependencyKind::transfer:
          why = "both ends of";
          break;
      }
    }
    text += fmt::format("{}{} waits for {} {}", i == 0 ? "" : "\n", name(id), why, name(before));
  }
  return text;
}

}  // namespace weir
