// When each forward and backward of a run began and ended, as trainers on Megatron dump it beside
// their logs (dump_pp_data of AMD-AGI/Primus: config.json and pp_rank_0.json, pp_rank_1.json, ...
// in one folder), made the same measured Trace that our executor writes.
//
// Times are ms since the rank's own start of the iteration. Ranks leave the step before together,
// within a millisecond or two, and are taken to start at once: the files have no common clock. They
// know no transfers and no optimizer either: messages take no time here, and what passes between an
// action's last input and its start is the host's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plan/program/program.hpp"
#include "plan/schedule/schedule.hpp"
#include "plan/words/units.hpp"
#include "traces/trace.hpp"

namespace weir {

// One iteration of one rank; entry m of a list is micro-batch m's.
struct RankIteration {
  Seconds total{0};  // from this rank's start to the end of its schedule
  Bytes memory;      // most that its allocator reserved so far
  std::vector<Seconds> forward_start, forward_end, backward_start, backward_end;
};

struct RankTimeline {
  std::string file;                       // what messages call it
  std::vector<std::int64_t> numbers;      // of the iterations, ascending
  std::vector<RankIteration> iterations;  // one for each number
};

struct Timeline {
  Schedule schedule;                  // the order that the times show
  Program program;                    // its actions and messages; unlimited slots, no optimizer
  Trace trace;                        // a step an iteration; its counters have each rank's memory
  std::vector<std::int64_t> numbers;  // of the iterations, as the files count them

  // The step of an iteration. Throws InputError where there is none of this number.
  [[nodiscard]] std::int32_t step_of(std::int64_t number, const std::string& file) const;
};

// Throws InputError (file and key): other iterations, other numbers of micro-batches or another
// order of actions than the first rank or iteration has, an end before its start, actions that
// overlap, an order that no schedule may have.
[[nodiscard]] Timeline make_timeline(const std::vector<RankTimeline>& ranks);

// Whether a path is such a folder.
[[nodiscard]] bool is_timeline(const std::filesystem::path& path);
// Throws InputError as above, and for what is not modelled: chunks, weight gradients apart,
// micro-batches out of order.
[[nodiscard]] Timeline read_timeline(const std::filesystem::path& folder);

// The same without the iterations that `keep` has no number of; steps are counted anew.
[[nodiscard]] Timeline only_iterations(const Timeline& timeline,
                                       const std::vector<std::int64_t>& keep);

// Each rank's memory in a step.
[[nodiscard]] std::vector<Bytes> memory_of(const Timeline& timeline, std::int32_t step);

}  // namespace weir
