// What a sweep is asked, and what it answers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "sim/search/sweep.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/plan/plan_layout.hpp"
#include "tools/app/run/process_session.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/shared/parallel_fields.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/app/sweep/sweep_reasons.hpp"
#include "tools/app/sweep/time_bound.hpp"

namespace weir::app {

struct SweepRequest {
  PlanOptions common;
  ParallelLists parallel;
  // What is not said is the search's to choose: on a cluster all of it, on this machine, which
  // runs pipelines alone, K up to 8 with gpipe and 1f1b.
  std::vector<int> pp, vpp, slices;
  std::optional<std::filesystem::path> layouts;  // inside stages: "all" or a file; none: degrees
  std::optional<int> gpus, at_most;              // devices; none: the cluster's
  std::vector<int> microbatches;                 // none: all divisors of the mini-batch
  std::vector<int> micro_batch_size{1};          // without a mini-batch
  std::optional<int> global_batch_size;
  int dynamic_cp = 0;  // tokens of a sequence on a device at most; 0: rows lie as they are
  Words schedule, recompute;
  std::optional<double> train_tokens;  // of a whole training
  std::string memory_limit;            // "80 GiB"; empty: the device's memory
  bool may_fit = false;                // a plan that may fit can be the best
  CostsSource costs;
  std::optional<std::filesystem::path> cluster;
  StackChoice stack;
  bool any_schedule = false;  // also what the stack has not
  PlanSource baseline;        // the plan in use today, where one is given
  int top = 20, threads = 0;
  std::string budget;  // "30s", with all that explains it: instead of a number of plans
  bool run = false;
  std::string backend = "cpu";
  int steps = 5;
  bool explain = false;
  std::optional<std::filesystem::path> picture, pareto, output, report, plans;
  bool resume = false;  // from what an unfinished search left beside `output`
  SessionOptions processes;
  std::uint64_t seed = 1;
  // Asked between candidates and between runs: a signal, and what was found so far is the result;
  // or 0. No field: whoever calls has signals, or none. Several threads ask, after a first call by
  // one.
  std::function<int()> stopping;
  // Told now and then how far the search is, and what it found. No field, as the one above.
  std::function<void(const SearchProgress&)> watching;
};

// The layout inside the stages of a plan.
struct NamedLayout {
  std::string name;  // as its file has it; empty: of all that there are
  LayoutInWords words;
};

// A plan of the ranking, as run.
struct SweepRow {
  std::size_t place = 0;  // in result.plans; of the baseline not looked at
  bool baseline = false;
  std::optional<Seconds> measured;
  std::optional<double> bubble;
};

struct SweepReply {
  weir::SweepResult result;
  std::vector<SweepRow> rows;  // the best ones, and the baseline at its place, or last
  Costs costs;
  Cluster cluster;
  StackAbilities software;  // of its stack, to which the search keeps
  std::string baseline_name;
  std::vector<std::string> remarks;  // what was chosen that nobody named; the plans have it too
  std::optional<std::filesystem::path> picture;
  std::vector<NamedLayout> layouts;  // of result.plans, where layouts were searched
  std::optional<SweepReasons> reasons;
  std::vector<FirstChange> first_changes;   // of the baseline
  std::optional<FamilyBest> with_pipeline;  // where the best plan has none
  // Of what is listed, and of the best with each choice made otherwise, where that was asked for.
  std::vector<Ranked> front;
  TimeBound time;                          // of all of this
  std::vector<std::string> not_looked_at;  // what it left no time for
  int stopped_by = 0;  // the signal that ended the search, or the runs, before their end
  bool leads = true;   // false: another process has the reply, and this one's is empty

  [[nodiscard]] const Ranked& ranked(const SweepRow& row) const {
    return row.baseline ? result.baseline->ranked : result.plans[row.place];
  }
};

}  // namespace weir::app
