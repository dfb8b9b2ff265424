// Places stages on devices and boundaries on links, and adds up what each has to do.
// SPDX-License-Identifier: Apache-2.0
#include "sim/partition/problem.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace weir {

PartitionProblem chain_problem(std::span<const std::int64_t> layer_ns, int stages,
                               CutTimes cut_ns) {
  PartitionProblem problem;
  problem.stages = stages;
  problem.layer_ns.emplace_back(layer_ns.begin(), layer_ns.end());
  problem.kinds.assign(at(stages), 0);
  for (int s = 0; s < stages; ++s) problem.devices.push_back({s});
  for (int b = 0; b + 1 < stages; ++b) problem.links.push_back({b});
  problem.cut_ns = std::move(cut_ns);
  return problem;
}

PartitionProblem placed_problem(std::vector<std::vector<std::int64_t>> layer_ns,
                                const ScheduleShape& shape, CutTimes cut_ns) {
  PartitionProblem problem;
  problem.stages = shape.stages;
  // One row of times for all ranks, or one for each.
  const bool alike = layer_ns.size() == 1;
  for (int rank = 0; rank < shape.ranks; ++rank) problem.kinds.push_back(alike ? 0 : rank);
  problem.layer_ns = std::move(layer_ns);
  problem.cut_ns = std::move(cut_ns);
  problem.devices.resize(at(shape.stages));
  problem.links.resize(at(shape.stages - 1));
  std::map<std::pair<int, int>, int> link_of;  // by its ranks, the lower first
  for (int s = 0; s < shape.total_stages(); ++s) {
    // Copies are numbered on from the chain's last stage: the same layers on another rank.
    const int index = s % shape.stages;
    const int rank = shape.rank_of(Stage{s}).value;
    problem.devices[at(index)].push_back(rank);
    if (index == 0) continue;
    const int before = shape.rank_of(Stage{s - 1}).value;
    // Neighbours on one rank send nothing.
    if (before == rank) continue;
    const auto ends = std::minmax(before, rank);
    const auto found = link_of.try_emplace(ends, static_cast<int>(link_of.size())).first;
    problem.links[at(index - 1)].push_back(found->second);
  }
  return problem;
}

std::vector<std::int64_t> running_sum(const std::vector<std::int64_t>& values) {
  std::vector<std::int64_t> sums(values.size() + 1, 0);
  std::partial_sum(values.begin(), values.end(), sums.begin() + 1);
  return sums;
}

std::optional<std::int64_t> slowest_ns(const PartitionProblem& problem,
                                       std::span<const int> boundaries) {
  std::vector<std::int64_t> busy(problem.kinds.size()), bytes(problem.kinds.size());
  std::map<int, std::int64_t> carried;
  for (int s = 0; s < problem.stages; ++s) {
    const int first = s == 0 ? 0 : boundaries[at(s - 1)];
    const int last = s + 1 == problem.stages ? problem.layers() : boundaries[at(s)];
    for (const int device : problem.devices[at(s)]) {
      const auto& times = problem.layer_ns[at(problem.kinds[at(device)])];
      for (int l = first; l < last; ++l) {
        busy[at(device)] += times[at(l)];
        if (!problem.memory) continue;
        const PartitionMemory& m = *problem.memory;
        bytes[at(device)] += m.held[at(l)] + m.in_flight[at(s)] * m.kept[at(l)];
      }
    }
    if (s == 0 || problem.cut_ns.empty()) continue;
    for (const int link : problem.links[at(s - 1)])
      carried[link] += problem.cut_ns[at(s - 1)][at(first)];
  }
  if (problem.memory) {
    for (std::size_t d = 0; d < bytes.size(); ++d)
      if (bytes[d] > problem.memory->capacity[d]) return std::nullopt;
  }
  std::int64_t slowest = *std::ranges::max_element(busy);
  for (const auto& [link, time] : carried) slowest = std::max(slowest, time);
  return slowest;
}

}  // namespace weir
