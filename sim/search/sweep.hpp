// The search: every combination of what was asked for, made legal, forecast, and ranked.
// `candidates` says which there are, sim/forecast what each costs, and this file only walks and
// sorts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/job/resolve.hpp"
#include "sim/forecast.hpp"

namespace weir {

struct SweepRequest {
  Plan base;                     // model, dtype, optimizer, slots, seed: shared by all
  std::filesystem::path folder;  // the model's path is relative to it
  std::vector<int> pp{1};
  std::vector<int> vpp{1};
  std::vector<int> tp{1}, cp{1}, dp{1};  // base.sequence_parallel holds where tp > 1
  std::vector<int> zero{0};              // ZeRO stages; 0 where there are no replicas
  std::optional<int> devices;            // K tp cp dp may not be more
  std::vector<int> microbatches;         // empty: every divisor of the mini-batch
  std::vector<int> micro_batch_size{1};  // used where microbatches are given and no mini-batch
  std::optional<int> global_batch_size;  // then b = G / (M D)
  std::vector<std::string> schedules{"gpipe", "1f1b"};
  std::vector<Recompute> recompute{Recompute{}};
  std::optional<Bytes> memory_limit;  // per device
  bool exact_slots =
      false;  // base.slots was asked for: schedules that deadlock with so few are left out
  std::optional<ResolvedPlan>
      baseline;     // the plan in use today, forecast as it stands (sim/search/baseline)
  int threads = 0;  // 0: as many as there are cores; the result does not depend on it
};

struct Ranked {
  Plan plan;
  Forecast forecast;
  double gap = 0;       // step time over its lower bound, minus 1
  bool pareto = false;  // no other plan is both faster and smaller
};

struct Baseline {
  Ranked ranked;
  std::optional<int>
      place;         // among the feasible plans, 1 before all of them; none: it does not fit
  double ratio = 0;  // its step time over the best plan's
};

struct SweepResult {
  int candidates = 0;
  int feasible = 0;
  double seconds = 0;
  std::vector<Ranked>
      plans;  // feasible ones, best first: fastest, then smallest, then the first found
  std::vector<std::string> refused;       // why combinations were left out, each reason once
  std::optional<Ranked> smallest_misfit;  // where nothing fits: the plan that needs least memory
  std::optional<Baseline> baseline;       // where one was asked for and plans fit
};

// The ways in which the candidates and the baseline split layers, each once; those that cannot be
// are left out.
[[nodiscard]] std::vector<Split> splits(const SweepRequest& request, const Model& model);

// Candidate plans, their stages balanced by `costs` (sim/search/balance); reasons for those that
// cannot be are added to `refused`.
[[nodiscard]] std::vector<Plan> candidates(const SweepRequest& request, const Model& model,
                                           const Costs& costs, const Cluster& cluster,
                                           std::vector<std::string>& refused);

// The order of a ranking: fastest, then smallest.
[[nodiscard]] bool goes_before(const Forecast& a, const Forecast& b);

// Every candidate, its boundaries refined for the shortest step (sim/search/refine), forecast and
// ranked.
[[nodiscard]] SweepResult sweep(const SweepRequest& request, const Costs& costs,
                                const Cluster& cluster);

[[nodiscard]] std::string to_json(const SweepResult& result);

// Time of each layer's F and B for one micro-batch, ns: what partitions are made by.
[[nodiscard]] std::vector<std::int64_t> layer_times(
    const Model& model, const Plan& plan, const Costs& costs, const Cluster& cluster,
    std::shared_ptr<const ModelPart> part = nullptr);

}  // namespace weir
