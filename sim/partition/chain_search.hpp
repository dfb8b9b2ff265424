// The search for a chain whose stages have each a device of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "sim/partition/problem.hpp"

namespace weir {

// Layers and stages under a limit on time: which layers can begin a stage.
class ChainSearch {
 public:
  // The problem must outlive it. A stage of time t counts as weight t + the head of all layers
  // before it: what a step has at least, where `weight` is M and `head_ns`, by layer, what the
  // first micro-batch takes on its way to the stage and the last one on its way back.
  struct Measure {
    std::int64_t weight = 1;
    std::vector<std::int64_t> head_ns{};
  };
  explicit ChainSearch(const PartitionProblem& problem) : ChainSearch(problem, Measure()) {}
  ChainSearch(const PartitionProblem& problem, const Measure& measure);

  // The least limit that a partition keeps; nullopt: no partition keeps to the memory.
  [[nodiscard]] std::optional<std::int64_t> least_limit() const;
  // The partition under `limit` whose early stages take as much as they can; none: there is none.
  [[nodiscard]] std::optional<std::vector<int>> front_heavy(std::int64_t limit) const;
  // The one with the least sum of squares of stages and cuts; ties go to the earliest boundaries.
  [[nodiscard]] std::optional<std::vector<int>> even(std::int64_t limit) const;

 private:
  using Positions = std::vector<int>;  // ascending
  // A limit, and the times nearest to it that it kept and refused: under every limit from the one
  // to below the other all answers are the same.
  struct Limit {
    std::int64_t most;
    std::int64_t kept = 0, refused = std::numeric_limits<std::int64_t>::max();
    bool keeps(std::int64_t time) {
      if (time <= most)
        kept = std::max(kept, time);
      else
        refused = std::min(refused, time);
      return time <= most;
    }
  };
  [[nodiscard]] std::int64_t time(int stage, int first, int last) const;
  [[nodiscard]] bool fits(int stage, int first, int last, Limit& limit) const;
  [[nodiscard]] std::int64_t cut(int stage, int first) const;
  [[nodiscard]] std::vector<int> earliest(Limit& limit) const;
  [[nodiscard]] bool next(int stage, const Positions& before, int low, Limit& limit,
                          Positions& found) const;
  [[nodiscard]] std::optional<std::vector<Positions>> reachable(Limit& limit) const;
  [[nodiscard]] bool feasible(Limit& limit) const;
  [[nodiscard]] bool packs(std::int64_t limit) const;
  [[nodiscard]] std::vector<int> packed(std::int64_t limit) const;
  [[nodiscard]] std::int64_t lower_bound() const;

  const PartitionProblem& problem_;
  std::int64_t weight_;
  int stages_, layers_;
  bool plain_;                                   // equal devices, no cuts, no memory, no head
  std::vector<std::vector<std::int64_t>> sums_;  // by kind: of the layers before
  std::vector<int> kind_;                        // by stage
  std::vector<std::int64_t> head_;               // of the layers before; none: no head
  std::vector<std::int64_t> held_, kept_;        // sums of bytes
};

}  // namespace weir
