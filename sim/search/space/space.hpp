// What a search walks: the combinations that were asked for, legal or not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/job/resolve.hpp"
#include "plan/job/stack_abilities.hpp"
#include "sim/search/space/family.hpp"
#include "sim/search/space/search_state.hpp"
#include "sim/search/space/stage_layout.hpp"

namespace weir {

// A plan than which none that was found is both faster and smaller.
struct FrontPoint {
  Seconds step{0};
  Bytes peak{0};
  std::string plan;  // in short
};

// How far a search is.
struct SearchProgress {
  std::int64_t done = 0, of = 0;  // candidates
  double seconds = 0;
  std::optional<Seconds> best;  // step time
  // What was found so far, fastest first; while the one who is told holds the search up.
  std::function<std::vector<FrontPoint>()> front = {};
};

// Processes that search together: all call `exchange` equally often, each with its own text, and
// get everybody's, by index. They find what one of them alone would.
struct SearchParty {
  int index = 0, count = 1;
  std::function<std::vector<std::string>(const std::string&)> exchange;
};

// An empty list of degrees, schedules or re-materialisation leaves that choice to the search
// (sim/search/space/open_choices).
struct SweepRequest {
  Plan base;                     // model, dtype, optimizer, slots, seed: shared by all
  std::filesystem::path folder;  // the model's path is relative to it
  std::vector<int> pp{1};
  std::vector<int> vpp{1};
  std::vector<int> tp{1}, cp{1}, dp{1};  // base.sequence_parallel holds where tp > 1
  std::vector<int> ep{1};                // those that divide cp dp and the model's experts
  std::vector<int> etp{0};               // devices that divide each expert; 0: tp
  std::vector<int> slices{1};            // of a sequence, for schedules that slice; 1: the others
  // Sequence parallelism wherever the model's sizes allow it; so too where tp is left open.
  bool sequence_parallel_where_it_can = false;
  // Stages have one of these layouts, as far as the degrees above allow it; none: any degrees. With
  // them cp and etp are 1 and 0, and sequence parallelism is as the layout has it.
  std::optional<std::vector<StageLayout>> layouts = {};
  std::vector<int> zero{0};         // ZeRO stages; 0 where there are no replicas
  std::vector<int> zero_shards{0};  // devices among which ZeRO divides, where they do; 0: all
  std::vector<CudaGraphs> cuda_graphs{CudaGraphs()};
  // Shares that the host's memory has, of the optimizer's state and of what blocks keep; empty: the
  // base's. Stages that are rebuilt as a whole take the least of the latter alone.
  std::vector<double> offload_optimizer = {}, offload_activations = {};
  // What experts exchange travels beside other work wherever it can (costmodel/links/
  // expert_overlap), which makes no step longer; false: as the base has it.
  bool overlap_experts_where_it_can = false;
  // Beside each plan whose devices may follow every sequence's length (plan/words/lengths) it with
  // so many tokens of one on a device at most; 0: none. The base follows none.
  int dynamic_cp = 0;
  std::vector<RankOrder> rank_order{RankOrder::tp_cp_dp_pp};
  std::optional<int> devices;            // K tp cp dp may not be more
  bool exact_devices = false;            // nor less
  std::vector<int> microbatches;         // empty: every divisor of the mini-batch
  std::vector<int> micro_batch_size{1};  // used where microbatches are given and no mini-batch
  std::optional<int> global_batch_size;  // then b = G / (M D)
  std::vector<std::string> schedules{"gpipe", "1f1b"};
  std::vector<Recompute> recompute{Recompute{}};
  std::optional<Bytes> memory_limit;  // per device
  // Where nobody named the software: what may run the plans. A search of a large space tells how
  // long the best plans' steps are by it (Ranked::range).
  std::vector<Stack> known_software = {};
  bool exact_slots =
      false;  // base.slots was asked for: schedules that deadlock with so few are left out
  // What the cluster's software has, and what of it the candidates keep to; none: it is set with
  // the choices left open, without what was named (sim/search/space/open_choices).
  StackAbilities software;
  std::optional<StackAbilities> within;
  bool open_schedules = false;  // none was named
  bool any_schedule = false;  // of those left open also what divides the vocabulary, and is not run
  std::optional<ResolvedPlan>
      baseline;     // the plan in use today, forecast as it stands (sim/search/space/baseline)
  int threads = 0;  // 0: as many as there are cores; the result does not depend on it
  // How many of the best plans are wanted; none: every plan that fits. The search is exact for
  // them, and says so, unless its effort ends first.
  std::optional<int> keep;
  // Plans of which boundaries are refined, before it settles for a gap; eight times as many of a
  // cluster of several kinds of nodes.
  int effort = 1024;
  // What else is asked: the best plan of each of these, and the front of step time and memory.
  std::vector<Family> families = {};
  bool front = false;
  std::optional<Seconds> budget;  // instead of `effort`: so long
  // Told now and then how far the search is.
  std::function<void(const SearchProgress&)> progress = {};
  // Of a search of a large space: told where it stands, between its blocks; and where an earlier
  // one stood, from which this one goes on to the same result.
  std::function<void(const SearchState&)> checkpoint = {};
  std::optional<SearchState> resume = {};
  std::optional<SearchParty> party = {};
  // Asked between candidates and within them, by several threads; true: the best so far is the
  // result.
  std::function<bool()> stop = {};
};

// Whether a search may use so many devices.
[[nodiscard]] bool right_devices(const SweepRequest& request, std::int64_t devices);

// The base with every combination of parallel degrees, each once: ZeRO needs replicas, sequence
// parallelism tp; those that no K brings to the devices asked for are left out. Precondition: no
// degree is left open.
[[nodiscard]] std::vector<Plan> with_degrees(const SweepRequest& request, const Model& model);

// The candidate as its software takes it: without the words that the search set and that it cannot
// have.
void settle(const SweepRequest& request, Plan& plan);
// Whether it is another candidate again: stages that are rebuilt as a whole leave nothing to
// offload.
[[nodiscard]] bool offloads_nothing(const SweepRequest& request, const Plan& plan);

// With one rank both orders of the devices are the same: the second of two is passed over.
[[nodiscard]] bool same_order(const SweepRequest& request, const Plan& plan);

// Whether the plan's stages have a layout that the search may choose.
[[nodiscard]] bool right_layout(const SweepRequest& request, const Plan& plan);

struct Batch {
  int microbatches = 1;
  int micro_batch_size = 1;
};
// M and b of one replica of a plan with these degrees: as given, or M with b = G / (M dp), rounded
// down where that is no whole number; of layouts those that are for this b.
[[nodiscard]] std::vector<Batch> batches(const SweepRequest& request, const Plan& degrees);

// The ways in which the candidates and the baseline split layers, each once; those that cannot be
// are left out.
[[nodiscard]] std::vector<Split> splits(const SweepRequest& request, const Model& model);

// The model, and behind its layers those that candidates have beside it, whose vocabulary is
// divided over their ranks: what costs are made for.
[[nodiscard]] Model with_shards(const SweepRequest& request, Model model);

}  // namespace weir
