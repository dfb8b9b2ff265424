// The search where devices or links serve several stages or boundaries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "sim/partition/problem.hpp"

namespace weir {

// Partial partitions under a limit on time, built stage by stage in an order that finishes devices
// early: from both ends inwards where first and last stages share devices (V, bidirectional), else
// from the first layer. Two that have the same layers left, and the same done on what is not
// finished, have the same future: one of them is kept.
class SharedSearch {
 public:
  enum class Outcome : std::uint8_t { found, none, exhausted };

  // The problem must outlive it.
  explicit SharedSearch(const PartitionProblem& problem);

  // Whether a partition keeps to the limit. `budget`, partial partitions, goes down by what was
  // made of it; at 0 the search is exhausted.
  [[nodiscard]] Outcome decide(std::int64_t limit, std::int64_t& budget);
  [[nodiscard]] const std::vector<int>& boundaries() const { return boundaries_; }  // of `found`
  // No partition has a busiest device that is faster.
  [[nodiscard]] std::int64_t lower_bound() const;

 private:
  struct Step {
    int stage = 0;
    bool left = true;                // takes the first of the layers that are left, or the last
    int boundary = -1;               // that it decides; -1: the chain's last stage to be placed
    std::vector<std::size_t> open;   // resources with work before and after, for the state
    std::vector<std::size_t> later;  // devices with work after
  };
  struct Partial {
    int first = 0, last = 0;  // the layers that are left
    std::int32_t parent = -1;
    std::vector<std::int64_t> load;  // by resource: ns, then bytes by device
  };
  [[nodiscard]] bool take(const Step& step, int first, int last, std::int64_t limit,
                          std::vector<std::int64_t>& load) const;
  [[nodiscard]] bool hopeless(const Step& step, const Partial& partial, std::int64_t limit) const;
  void extend(const Step& step, const Partial& from, std::int32_t parent, std::int64_t limit,
              std::vector<Partial>& next, std::int64_t& budget) const;
  void remember(const std::vector<std::vector<Partial>>& levels);

  const PartitionProblem& problem_;
  std::size_t devices_, links_ = 0;
  std::vector<Step> steps_;
  std::vector<std::vector<std::int64_t>> sums_;
  std::vector<std::int64_t> fastest_, held_, kept_;  // sums over layers
  std::int64_t copies_;                              // devices a stage stands on
  std::vector<int> boundaries_;
};

}  // namespace weir
