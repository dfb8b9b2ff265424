// What a run of threads and a run of processes do alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/device/backend.hpp"
#include "exec/rank/activity.hpp"
#include "exec/run/run_result.hpp"
#include "exec/training/batches.hpp"
#include "exec/training/each_weight.hpp"
#include "exec/training/parameter_state.hpp"
#include "plan/job/resolve.hpp"
#include "plan/program/program.hpp"
#include "plan/text/strict_json.hpp"

namespace weir {

// The run's clock: steady_clock, which all processes of one host share.
[[nodiscard]] std::int64_t now_ns();

// Precondition of all that follow: require_trainable.

// Throws InputError.
[[nodiscard]] Batches open_batches(const ResolvedPlan& loaded, const RunOptions& options);
// Of the file to evaluate, in its order. Throws InputError, where there is no whole mini-batch too.
[[nodiscard]] Batches open_evaluation(const ResolvedPlan& loaded, const RunOptions& options);
// What a run begins with. Throws InputError. `loaded` outlives it.
struct Beginning {
  StateSource state;
  std::int64_t step = 0;                         // trained already
  std::optional<std::filesystem::path> resumed;  // the checkpoint
  std::string state_sha256;                      // of its tensors, where it has a seal
  Json trained;                                  // what its own checkpoints say of it
};
[[nodiscard]] Beginning begin_run(const ResolvedPlan& loaded, const RunOptions& options);

// The next two by the process that writes, before the first step. Throws RunFailed where there is
// no room for one checkpoint, and notes where there is none for all of them.
void require_space(const ResolvedPlan& loaded, const RunOptions& options, std::int64_t first_step);
// Removes what another run has left, where that is asked for, and says so. Throws InputError.
void clear_checkpoints(const RunOptions& options);

// Throws UsageError for what contradicts: a dump without a step, graphs where a step is not like
// the one before, two beginnings.
void require_consistent(const RunOptions& options);

// The mean loss of the labels of as many steps as the data has whole mini-batches.
[[nodiscard]] Evaluation evaluate(const ResolvedPlan& loaded, const Batches& batches,
                                  const std::function<double(std::uint32_t step)>& loss_of);

// Of a step: seq_length + 1 of each sample of the mini-batch.
[[nodiscard]] std::vector<std::int32_t> tokens_of_step(const ResolvedPlan& loaded,
                                                       const Batches& batches, std::int64_t step);

// Where the run's files are written; called by all processes of a run, and `leads` at the one that
// writes.
struct RunEnd {
  FetchParameter fetch;
  bool leads = true;
  bool dumps = true;  // false: the step that was to be dumped has not been
  // Of the last step, the whole mini-batch; at the one that writes.
  std::vector<float> logits;
  std::vector<std::int32_t> tokens;
};
// What cannot be written is told in `not_kept`, behind what is there already: the rest is kept.
void write_files(const ResolvedPlan& loaded, const RunOptions& options, const RunEnd& end,
                 std::optional<std::string>& not_kept);

// Each rank's actions are written down in the output folder, where there is one, until the run has
// ended well. Throws InputError.
void write_down_actions(const Program& program, Rank rank, int replica, const RunOptions& options,
                        Activity& activity);

// Watches for actions that stand still; null where nobody is to be told.
[[nodiscard]] std::unique_ptr<Watchdog> watch_actions(const Program& program,
                                                      const Activity& activity,
                                                      const RunOptions& options);

// Whether a checkpoint is written after this many steps of the run.
[[nodiscard]] bool checkpoint_due(const RunOptions& options, std::int64_t trained, bool ends);
// Writes one, timed, and adds it to `kept`, or why there is none. `end`: as in write_files.
void save_checkpoint(const ResolvedPlan& loaded, const RunOptions& options, const Beginning& from,
                     std::int64_t trained, const RunEnd& end, CheckpointsKept& kept);

// By micro-batch, the rank that computes its loss.
[[nodiscard]] std::vector<Rank> loss_ranks(const Program& program);

// Throws RunFailed unless there is a duration for every operation.
void require_durations(const Program& program, const RunOptions& options);

// Operations of compute lanes; of one rank where it is given.
[[nodiscard]] std::int64_t compute_actions(const Program& program,
                                           std::optional<Rank> of = std::nullopt);

// Median time of the steps after `warmup`; 0 where there are none.
[[nodiscard]] Seconds median_step(const std::vector<StepResult>& steps, int warmup);

}  // namespace weir
