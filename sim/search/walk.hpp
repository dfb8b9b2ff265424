// Pursues one goal: candidates in the order of what they can reach at best, until that passes what
// was found; those looked at are refined in the order of an estimate. What is estimated to be
// slower than what was found, but might not be, waits until the end, and is looked at while the
// effort lasts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <span>

#include "sim/search/goal.hpp"
#include "sim/search/result.hpp"

namespace weir {

// What all goals of a search share.
struct SearchGround {
  const SweepRequest& request;
  const Nodes& nodes;
  const SplitCosts& known;
  const Cluster& cluster;
  Refiner& refiner;
  std::vector<std::uint32_t> order;  // the nodes' groups, by their estimates
  bool stopped = false, out_of_time = false;

  SearchGround(const SweepRequest& its_request, const Nodes& its_nodes, const SplitCosts& costs,
               const Cluster& its_cluster, Refiner& its_refiner);
  [[nodiscard]] double seconds() const;
};

class Walk {
 public:
  // The ground must outlive it.
  Walk(SearchGround& ground, const Goal& goal);

  // Goes on from where an earlier search stood. Throws InputError where that was another space.
  void restore(const SearchState& state);
  void run();

  [[nodiscard]] Answer answer() const;
  // Adds what was looked at, and how far.
  void count(SweepResult& result) const;

 private:
  // Candidates whose estimate is within the limit, or all.
  enum class Depth : std::uint8_t { estimates, all };

  [[nodiscard]] double bound(std::uint32_t node) const { return ground_.nodes.all[node].bound_ns; }
  [[nodiscard]] bool wanted(std::uint32_t node) const { return wanted_.empty() || wanted_[node]; }
  [[nodiscard]] bool over() const;
  [[nodiscard]] bool spent();
  [[nodiscard]] bool agreed(bool mine) const;
  [[nodiscard]] std::optional<Seconds> limit() const;
  [[nodiscard]] double limit_ns() const;
  // Bounds above this are of no use; the first few candidates are looked at for exactness.
  [[nodiscard]] double worth_ns() const {
    return limit_ns() / (refined_ < goal_.exact ? 1 : 1 + goal_.close);
  }

  void choose();
  void begin_with_what_is_known();
  void add_possible(const NodeGroup& group, std::vector<std::uint32_t>& block);
  void look_at(std::span<const std::uint32_t> block);
  void forecast_best(std::vector<Examined>& candidates, Depth depth);
  void refine(std::span<const std::uint32_t> batch);
  void take(std::uint32_t node);
  void enter(std::uint32_t node);
  void miss(const Examined& one);
  void miss_schedule(const std::string& reason);
  void miss_memory(std::uint32_t node, Bytes needed);
  void miss_host(std::uint32_t node, const HostHeld& host);
  void report() const;
  [[nodiscard]] std::vector<FrontPoint> front() const;
  void checkpoint() const;
  [[nodiscard]] bool possible(const RefinedNode& one) const;

  SearchGround& ground_;
  const Goal goal_;
  std::vector<bool> wanted_;       // by node; empty: all are
  std::vector<double> least_;      // by place in the order: least bound from there on
  std::vector<Found> best_;        // best first, as many as are kept
  std::vector<Examined> waiting_;  // estimated to be slower than what was found
  LeftOut schedule_{"schedule"}, memory_{"memory"}, host_{"host memory"};
  std::optional<std::pair<std::uint32_t, Bytes>> nearest_;  // of those that do not fit
  // The least bound of those that were passed over because nothing so near is asked for, and of
  // those that were cut short.
  double passed_over_ns_ = std::numeric_limits<double>::max();
  bool any_ = false;
  std::size_t next_ = 0;     // place in the order that was not looked at
  std::int64_t passed_ = 0;  // candidates of those before it
  std::int64_t looked_at_ = 0, simulated_ = 0;
  std::int64_t timed_ = 0;  // steps of this call
  double timed_seconds_ = 0;
  int refined_ = 0, feasible_ = 0;
  int too_large_ = 0;  // evenly cut, for the goal's memory
};

}  // namespace weir
