// Candidates of a search looked at before any is forecast: whether their schedule and memory can
// be, and how long their step seems. What many share is found once: a schedule's shape, the
// boundaries of a split, the costs of a job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "sim/search/memory_bound.hpp"
#include "sim/search/nodes.hpp"
#include "sim/search/programs.hpp"

namespace weir {

struct Examined {
  std::uint32_t node = 0;
  enum class Verdict : std::uint8_t { possible, schedule, memory } verdict = Verdict::possible;
  bool unshaped = false;   // of memory: whether the schedule can be was not looked at
  std::string reason{};    // of a schedule that cannot be
  Bytes memory{0};         // at least
  double estimate_ns = 0;  // of its step, evenly cut; where it is possible
};

// Schedules by (name, K, v, M, slices): made once for all jobs.
class Shapes {
 public:
  using Key = std::tuple<std::uint32_t, int, int, int, int>;
  using FactsOrReason = std::variant<ShapeFacts, std::string>;

  explicit Shapes(const SweepRequest& request) : request_(request) {}
  // Makes those that are new.
  void add(const std::vector<Key>& keys);
  [[nodiscard]] const FactsOrReason& of(const Key& key) const { return known_.at(key); }

  // The receive slots with which a plan's schedule cannot deadlock; or why there are none.
  [[nodiscard]] std::variant<int, std::string> slots(const Plan& plan, Programs& programs) const;

 private:
  [[nodiscard]] FactsOrReason made(const Key& key) const;

  const SweepRequest& request_;
  std::map<Key, FactsOrReason> known_;
};

// Boundaries by what they follow from, found once.
class Boundaries {
 public:
  Boundaries(const SplitCosts& known, const Cluster& cluster) : known_(known), cluster_(cluster) {}
  // `shape`: the schedule's, which matters where ranks stand on several kinds of nodes.
  [[nodiscard]] std::vector<int> of(Plan plan, const ScheduleShape& shape);

 private:
  const SplitCosts& known_;
  const Cluster& cluster_;
  std::mutex mutex_;
  using Key =
      std::tuple<bool, int, int, int, int, int, int, bool, int, int, int, int, int, int, RankOrder,
                 CudaGraphs, double, double, std::vector<PlacedRanks>, std::vector<int>>;
  std::map<Key, std::vector<int>> found_;
};

class Examiner {
 public:
  // The references must outlive it.
  Examiner(const SweepRequest& request, const Nodes& nodes, const SplitCosts& known,
           const Cluster& cluster)
      : request_(request),
        nodes_(nodes),
        known_(known),
        cluster_(cluster),
        device_(device_share(known.costs(), cluster)),
        shapes_(request),
        boundaries_(known, cluster) {}

  // In an order that follows from the nodes alone. Of several processes each looks at its share,
  // and hears of the others'.
  [[nodiscard]] std::vector<Examined> examine(std::span<const std::uint32_t> nodes);
  // The node's plan, evenly cut.
  [[nodiscard]] Plan plan(std::uint32_t node);
  [[nodiscard]] const Shapes& shapes() const { return shapes_; }
  // Why the node's schedule cannot be.
  [[nodiscard]] std::optional<std::string> no_schedule(std::uint32_t node);

 private:
  // Candidates of one job with as many stages of the same layers.
  using Alike = std::span<const std::uint32_t>;

  [[nodiscard]] bool too_large(Bytes memory) const {
    return request_.memory_limit && memory > *request_.memory_limit;
  }
  // What the mean rank of the node's job holds from step to step: the fullest has no less.
  [[nodiscard]] Bytes least_held(const Node& node) const {
    return device_.of(nodes_.held[node.job] / node.ranks);
  }
  [[nodiscard]] std::vector<Examined> examine_alike(Alike alike);
  // Groups of candidates by the process that looks at them.
  [[nodiscard]] std::vector<std::size_t> shares(const std::vector<Alike>& groups) const;
  // `found`, by group: this process's, to which the others' come.
  void exchange(const std::vector<Alike>& groups, const std::vector<std::size_t>& shares,
                std::vector<std::vector<Examined>>& found) const;
  [[nodiscard]] Shapes::Key shape(const Node& node) const {
    const Plan& job = nodes_.jobs[node.job];
    return {node.schedule, node.ranks, node.chunks, job.microbatches, job.slices};
  }

  const SweepRequest& request_;
  const Nodes& nodes_;
  const SplitCosts& known_;
  const Cluster& cluster_;
  DeviceShare device_;
  Shapes shapes_;
  Boundaries boundaries_;
};

}  // namespace weir
