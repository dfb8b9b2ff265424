// What a run is asked for, and what it gives: the same for threads and for processes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exec/device/backend.hpp"
#include "plan/words/units.hpp"
#include "traces/kernels.hpp"
#include "traces/trace.hpp"

namespace weir {

// A step that is done, and how far the run is.
struct StepReport {
  std::int64_t step = 0;  // trained so far, in the runs before too
  int done = 0, of = 0;   // of this run's, warm-up included
  double loss = 0;
  Seconds time{0};
  std::optional<double> gradient_norm = std::nullopt;  // where gradients are clipped
};

// Whether a step is launched as one CUDA graph, from the second on.
enum class Graphs : std::uint8_t {
  never,
  where_possible,  // K = 1 and steps alike; launched where CUDA does not capture it
  always,
};

struct RunOptions {
  BackendKind backend = BackendKind::cpu;
  int steps = 3;                              // measured
  int warmup_steps = 1;                       // before them: trained, not in step_time or the trace
  std::vector<std::filesystem::path> data;    // any files, as bytes; none: synthetic tokens
  std::optional<std::filesystem::path> init;  // weights to begin with; absent: by the plan's seed
  std::optional<std::filesystem::path> save;  // the file for the weights at the end
  // The file for the last step's gradients and logits; cpu.
  std::optional<std::filesystem::path> dump;
  std::optional<std::filesystem::path> evaluate;    // data of which the loss is taken at the end
  std::vector<std::int64_t> synthetic_duration_ns;  // per operation, for BackendKind::synthetic
  bool fastest = false;  // cuda: algorithms for each K's share; equal bits over K no more
  Graphs graphs = Graphs::never;
  bool kernels = false;  // cuda: record the kernels of every action; launching is slower then
  bool trace = true;     // false: to measure the tracer's own cost
  // The run's folder: checkpoints go to checkpoints/step-000003 in it, after every so many steps
  // (0: never), the last one and the one after which a run is stopped.
  std::optional<std::filesystem::path> output;
  int checkpoint_every = 0;
  std::optional<std::filesystem::path> resume;  // a checkpoint, or a run's folder: its newest
  bool restart = false;  // checkpoints that another run has left in `output` are removed first
  std::function<void(const StepReport&)> on_step;  // called after each step
  // Told of an action that takes longer than `longest_action`, by a thread of its own; ends the
  // process, for what stands still cannot be ended otherwise. Empty: nobody watches.
  std::function<void(const std::string& line)> hangs;
  Seconds longest_action{600};
  // Asked after each step; by processes each, of which any ends the run of all. The number of the
  // signal that asks to end there, else 0.
  std::function<int()> stop;
  // What people must know, in one line; of processes the leader's.
  std::function<void(const std::string& line)> note = [](const std::string&) {};
  // What went wrong while training goes on: damage that is passed over, a checkpoint not written.
  std::function<void(const std::string& line)> fault = [](const std::string&) {};
};

struct StepResult {
  double loss = 0;
  Seconds time{0};
  std::int64_t allocations =
      0;  // blocks that the ranks took from their backends; none in a steady state
  // Of all gradients together, before they are clipped; none where they are not.
  std::optional<double> gradient_norm = std::nullopt;
};

// The mean loss over the whole mini-batches of a file, without dropout.
struct Evaluation {
  double loss = 0;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;  // that have a label
};

struct CheckpointWritten {
  std::int64_t step = 0;  // trained until then
  std::filesystem::path folder;
  Seconds time{0};  // that the run stood still for it
};

// Checkpoints of a run: a disk that is full for one may have room for the next.
struct CheckpointsKept {
  std::vector<CheckpointWritten> written;
  std::optional<std::string> failed;  // the first that could not be written, and why
};

struct RunResult {
  std::vector<StepResult> steps;                 // warm-up steps first
  std::int64_t first_step = 0;                   // trained by the runs that this one goes on with
  std::optional<std::filesystem::path> resumed;  // the checkpoint that it began with
  std::vector<CheckpointWritten> checkpoints;
  int stopped_by = 0;  // the signal that ended it before all its steps; 0: none did
  std::optional<std::string> not_kept;  // what of it could not be written, and why
  std::optional<Evaluation> evaluation;
  Seconds step_time{0};            // median of the measured steps
  std::string parameters_sha256;   // empty for synthetic
  std::vector<Bytes> peak_memory;  // per rank: the arena's high-water mark; empty for synthetic
  std::vector<Bytes> scratch;      // per rank, in that peak: room of libraries and of sums
  std::vector<DeviceUse> devices;  // per rank, at the end of the run; empty where ranks are cores
  bool oversubscribed = false;     // more ranks than cores: never compared
  // Median time the host took to launch a step, over its compute actions; none where launching is
  // running.
  std::optional<Seconds> host_per_action;
  bool graph = false;                        // from the second step on it was one CUDA graph
  std::optional<std::string> graph_refused;  // why it was not, where that was tried
  Trace trace;                               // measured steps
  std::optional<KernelTrace> kernels;        // of the trace's actions, where they were asked for
};

// Bytes in use on a device that no rank's memory pool holds: the context, the libraries'
// workspaces, and whatever other processes have there. By device number; 0 for a number without
// ranks.
[[nodiscard]] std::vector<Bytes> outside_the_pools(const std::vector<DeviceUse>& ranks);

}  // namespace weir
