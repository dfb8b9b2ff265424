// Which (K, M) of a schedule can deadlock on which transport.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/program/blocking.hpp"
#include "tools/app/schedule/schedule_source.hpp"
#include "tools/app/shared/source.hpp"

namespace weir::app {

inline constexpr std::array kProvedModes{TransferMode::buffered, TransferMode::rendezvous,
                                         TransferMode::batched};

struct Verdict {
  int ranks = 0, microbatches = 0;
  std::string refused;  // why there is no such schedule; empty: there is
  std::array<std::optional<bool>, kProvedModes.size()> safe{};  // by mode; none: cannot_block
  int fewest_slots = 0, peak = 0;  // enough receive slots; stage-micro-batches
  double in_flight = 0;            // in micro-batches of a whole rank
  double gap = 0;                  // step time over its lower bound, minus 1
};

struct CounterExample {
  TransferMode mode;
  int ranks, microbatches;  // the smallest that it fails on
  std::string cycle;
};

struct GridProof {
  std::string schedule;
  int slots = 2;
  std::size_t asked = 0;  // (K, M); more than there are verdicts where the proof was stopped
  std::vector<Verdict> verdicts;
  std::vector<CounterExample> examples;
  int stopped_by = 0;  // the signal that stopped it
};

struct GridRequest {
  ScheduleChoice choice = "";
  ScheduleSource shape;           // but for its K and M
  std::string grid;               // "K=2..16,M=1..64", either part a list or a range
  int slots = 2;                  // receive slots an edge; 0: unlimited
  std::function<int()> stopping;  // asked before each (K, M); none: nobody stops it
};

// For each (K, M) of the grid: whether the schedule is free of deadlock with so many receive slots,
// by rendezvous and in NCCL groups; the fewest slots that are enough; the peak in flight; and the
// step time over its lower bound at F = I = W without communication. For each transport the first
// (K, M) that it fails on, with its shortest cycle. Throws UsageError for a grid that cannot be
// read, RunFailed where it is stopped before the first (K, M) was proved.
[[nodiscard]] GridProof prove_grid(const GridRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const GridProof& proof);  // weir.proof/1

}  // namespace weir::app
