// Walks the lists of a request once, and bounds what it meets.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/nodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "plan/schedule/generators/generators.hpp"
#include "sim/parallel.hpp"
#include "sim/search/memory_bound.hpp"
#include "sim/search/space/followers.hpp"
#include "sim/search/space/legality.hpp"
#include "sim/search/space/open_choices.hpp"
#include "sim/search/space/placements.hpp"

namespace weir {
namespace {

void count(LeftOut& left_out, const std::string& why, std::int64_t combinations = 1) {
  left_out.count += combinations;
  if (left_out.nearest.empty()) left_out.nearest = why;
}

// Degrees whose product is not what was asked for, and the one next to it.
void count_devices(const SweepRequest& request, LeftOut& left_out) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t k : request.pp) {
    for (const std::int64_t tp : request.tp) {
      for (const std::int64_t cp : request.cp) {
        for (const std::int64_t dp : request.dp) {
          const std::int64_t devices = k * tp * cp * dp;
          if (right_devices(request, devices)) continue;
          ++left_out.count;
          const std::int64_t off = std::abs(devices - *request.devices);
          if (off >= least) continue;
          least = off;
          left_out.nearest = fmt::format("K tp cp dp = {} {} {} {} makes {} devices, not {}", k, tp,
                                         cp, dp, devices, *request.devices);
        }
      }
    }
  }
}

class Enumeration {
 public:
  Enumeration(const SweepRequest& request, const Model& model, SplitCosts& known,
              const Cluster& cluster)
      : request_(request),
        model_(model),
        known_(known),
        cluster_(cluster),
        legality_(request, model, cluster) {
    for (const std::string& name : request.schedules)
      nodes_.traits.push_back(schedule_traits(name));
    count_devices(request, nodes_.devices);
  }

  Nodes all() && {
    const std::vector<Plan> bases = with_degrees(request_, model_);
    for (std::size_t at = 0; at < bases.size(); ++at) {
      if (over() || (at % kTogether == 0 && over_for_all())) break;
      add_jobs(bases[at]);
    }
    const bool all_jobs = !over_;
    if (!by_signal_) over_ = false;
    share_ = 2;
    // A job's sums are looked up once, for all its stages and schedules.
    std::vector<Found> found(nodes_.jobs.size());
    std::vector<Misfits> misfits(nodes_.jobs.size());
    const std::size_t block = request_.party ? kTogether : found.size();
    for (std::size_t first = 0; first < found.size() && !over_for_all(); first += block) {
      in_parallel(std::min(block, found.size() - first), [&](std::size_t i) {
        if (!over()) found[first + i] = nodes_of(first + i, misfits[first + i]);
      });
    }
    // In the order of the jobs, so that numbers and the nearest misses do not depend on threads.
    for (std::size_t job = 0; job < found.size(); ++job) {
      for (Node& node : found[job].nodes) node.placement = known_as(found[job], node.placement);
      for (NodeGroup group : found[job].groups) {
        group.first += static_cast<std::uint32_t>(nodes_.all.size());
        nodes_.groups.push_back(group);
      }
      nodes_.all.insert(nodes_.all.end(), found[job].nodes.begin(), found[job].nodes.end());
      const auto& [divisibility, software, schedule] = misfits[job];
      if (divisibility.count > 0)
        count(nodes_.divisibility, divisibility.nearest, divisibility.count);
      if (software.count > 0) count(nodes_.software, software.nearest, software.count);
      if (schedule.count > 0) count(nodes_.schedule, schedule.nearest, schedule.count);
    }
    nodes_.whole = all_jobs && !over_;
    nodes_.stopped = by_signal_;
    return std::move(nodes_);
  }

 private:
  // Whether no more are to be listed. Half of the budget is for looking at some of them, half of
  // what is left for the nodes of the jobs that were listed; a search that goes on from an earlier
  // one needs all that that one had listed.
  bool over() {
    if (!over_ && !request_.party) end_by(ended());
    return over_;
  }
  // Processes that search together must list the same: there it is asked between blocks of so many,
  // and the first one's answer counts.
  static constexpr std::size_t kTogether = 64;
  bool over_for_all() {
    if (request_.party && !over_) end_by(request_.party->exchange(ended()).front());
    return over();
  }
  // What ends the listing here.
  [[nodiscard]] const char* ended() const {
    if (request_.stop && request_.stop()) return kSignal;
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - nodes_.begin;
    const bool late =
        request_.budget && !request_.resume && gone.count() >= request_.budget->count() / share_;
    return late ? "time" : kNothing;
  }
  void end_by(std::string_view what) {
    if (what == kNothing) return;
    // Whoever reads that it is over then finds why.
    if (what == kSignal) by_signal_ = true;
    over_ = true;
  }
  static constexpr const char *kSignal = "signal", *kNothing = "no";

  // Of one job, what cannot be or is beyond the software.
  struct Misfits {
    LeftOut divisibility{}, software{}, schedule{};
  };
  // Of one job; groups count from its own first node.
  struct Found {
    std::vector<Node> nodes;
    std::vector<NodeGroup> groups;
    std::vector<std::vector<PlacedRanks>> placements;
  };

  // The number that one of a job's placements has among all.
  [[nodiscard]] std::uint32_t known_as(const Found& of, std::uint32_t placement) {
    auto& all = nodes_.placements;
    const auto known = std::ranges::find(all, of.placements[placement]);
    const auto number = static_cast<std::uint32_t>(known - all.begin());
    if (known == all.end()) all.push_back(of.placements[placement]);
    return number;
  }

  bool refuse(const std::optional<std::string>& reason) {
    if (reason) count(nodes_.divisibility, *reason);
    return reason.has_value();
  }

  void add_jobs(const Plan& base) {
    if (refuse(legality_.split(base)) || refuse(legality_.replicas(base))) return;
    const std::int64_t held = all_held(base, *known_.add(base).part(), cluster_);
    add_divided(base);
    Plan plan = base;
    for (const Batch& batch : batches(request_, base)) {
      plan.microbatches = batch.microbatches;
      plan.micro_batch_size = batch.micro_batch_size;
      if (refuse(legality_.microbatches(plan))) continue;
      for (const Recompute& recompute : request_.recompute) {
        // Nothing would be left to re-materialise.
        if (recompute.except_last && plan.microbatches == 1) continue;
        plan.recompute = recompute;
        if (offloads_nothing(request_, plan)) continue;
        add_job(plan, held);
      }
    }
  }

  // As it is, and, where that can be, with devices that follow sequences' lengths.
  void add_job(const Plan& plan, std::int64_t held) {
    for (const std::optional<Plan>& job : {std::optional(plan), followers_.of(plan)}) {
      if (!job) continue;
      nodes_.held.push_back(held);
      nodes_.jobs.push_back(*job);
    }
  }

  // Costs of the layers beside each number of shards; where there are none, nodes_of() hears why.
  void add_divided(Plan plan) {
    const auto divided = std::ranges::find_if(request_.schedules, divides_vocabulary);
    if (divided == request_.schedules.end()) return;
    plan.schedule = *divided;
    plan.vpp = 1;
    plan.recompute = {};
    for (const int k : request_.pp) {
      plan.pp = k;
      if (!legality_.shards(plan)) static_cast<void>(known_.add_divided(plan));
    }
  }

  [[nodiscard]] Found nodes_of(std::size_t job, Misfits& misfits) const {
    Found found;
    Plan plan = nodes_.jobs[job];
    for (const int k : request_.pp) {
      plan.pp = k;
      if (legality_.wrong_devices(plan) || same_order(request_, plan)) continue;
      if (k > 1 && plan.lengths.dynamic_cp > 0) continue;  // no pipeline's
      if (const auto lacking = legality_.degrees_beyond(plan)) {
        count(misfits.software, *lacking);
        continue;
      }
      // Once for all chunks, schedules and placements of this K.
      plan.schedule = request_.base.schedule;
      Work work{job_work(plan, known_.of(plan), cluster_), {}};
      const auto places = placements(plan, cluster_);
      for (const int v : chunks(request_, model_, k)) {
        plan.vpp = v;
        if (v > 1 && plan.lengths.dynamic_cp > 0) continue;
        if (const auto reason = legality_.stages(plan)) {
          count(misfits.divisibility, *reason);
          continue;
        }
        for (const auto& placement : places) {
          plan.placement = placement;
          found.placements.push_back(placement);
          stand_on(work.whole, plan, cluster_);
          add_group(found, static_cast<std::uint32_t>(job), plan, work, misfits);
        }
        plan.placement.clear();
      }
    }
    return found;
  }

  // Of one K: with the vocabulary whole, and with it divided, where a schedule does so.
  struct Work {
    JobWork whole;
    std::optional<JobWork> divided;
  };
  // None: it cannot be divided, which is counted.
  [[nodiscard]] const JobWork* work_of(const Plan& plan, Work& work, LeftOut& misfits) const {
    if (!divides_vocabulary(plan.schedule)) return &work.whole;
    auto reason = legality_.shards(plan);
    if (!reason) reason = known_.lacks(plan);
    if (reason) {
      count(misfits, *reason);
      return nullptr;
    }
    if (!work.divided) work.divided = job_work(plan, known_.of(plan), cluster_);
    return &*work.divided;
  }

  // Of one K and v, every schedule.
  void add_group(Found& found, std::uint32_t job, Plan& plan, Work& work, Misfits& misfits) const {
    constexpr double kNever = std::numeric_limits<double>::max();
    NodeGroup group{static_cast<std::uint32_t>(found.nodes.size()), 0, kNever, kNever};
    for (const std::size_t s : schedules_for(request_, plan.pp)) {
      plan.schedule = request_.schedules[s];
      if (const auto lacking = legality_.order_beyond(plan)) {
        count(misfits.software, *lacking);
        continue;
      }
      const JobWork* const its = work_of(plan, work, misfits.schedule);
      if (its == nullptr) continue;
      const ScheduleTraits& traits = nodes_.traits[s];
      // Of whole rows: one sequence at a time may take less.
      const double of_rows = work_bound(*its, traits, plan);
      const double bound = plan.lengths.dynamic_cp > 0 ? 0 : of_rows;
      group.bound_ns = std::min(group.bound_ns, bound);
      group.estimate_ns = std::min(group.estimate_ns, work_estimate(*its, traits, plan, of_rows));
      found.nodes.push_back({.job = job,
                             .ranks = plan.pp,
                             .chunks = plan.vpp,
                             .schedule = static_cast<std::uint32_t>(s),
                             .placement = static_cast<std::uint32_t>(found.placements.size() - 1),
                             .bound_ns = bound});
      ++group.count;
    }
    if (group.count > 0) found.groups.push_back(group);
  }

  const SweepRequest& request_;
  const Model& model_;
  SplitCosts& known_;
  const Cluster& cluster_;
  Legality legality_;
  Followers followers_{request_.dynamic_cp};
  Nodes nodes_;
  std::atomic<bool> over_ = false;  // set by whichever thread sees it first
  std::atomic<bool> by_signal_ = false;
  int share_ = 4;  // of the budget, by whose end this part of the listing is over
};

}  // namespace

Plan Nodes::plan(const Node& node, const SweepRequest& request) const {
  Plan plan = jobs[node.job];
  plan.pp = node.ranks;
  plan.vpp = node.chunks;
  plan.schedule = request.schedules[node.schedule];
  plan.placement = placements[node.placement];
  settle(request, plan);
  return plan;
}

Nodes enumerate(const SweepRequest& request, const Model& model, SplitCosts& known,
                const Cluster& cluster) {
  return Enumeration(request, model, known, cluster).all();
}

}  // namespace weir
