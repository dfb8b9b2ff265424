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

struct RunOptions {
  BackendKind backend = BackendKind::cpu;
  int steps = 3;
  int warmup_steps = 1;                       // run and trained, but not in step_time or the trace
  std::optional<std::filesystem::path> data;  // any file, as bytes; absent: seeded synthetic tokens
  std::vector<std::int64_t> synthetic_duration_ns;  // per operation, for BackendKind::synthetic
  bool fastest = false;  // cuda: algorithms for each K's share; equal bits over K no more
  bool graphs = false;   // launch the step as one CUDA graph, from the second on
  bool kernels = false;  // cuda: record the kernels of every action; launching is slower then
  bool trace = true;     // false: to measure the tracer's own cost
  std::function<void(int step, int of)> progress;  // called after each step
};

struct StepResult {
  double loss = 0;
  Seconds time{0};
  std::int64_t allocations =
      0;  // blocks that the ranks took from their backends; none in a steady state
};

struct RunResult {
  std::vector<StepResult> steps;   // warm-up steps first
  Seconds step_time{0};            // median of the measured steps
  std::string parameters_sha256;   // empty for synthetic
  std::vector<Bytes> peak_memory;  // per rank: the arena's high-water mark; empty for synthetic
  std::vector<Bytes> scratch;      // per rank: library scratch memory in that peak
  std::vector<DeviceUse> devices;  // per rank, at the end of the run; empty where ranks are cores
  bool oversubscribed = false;     // more ranks than cores: never compared
  // Median time the host took to launch a step, over its compute actions; none where launching is
  // running.
  std::optional<Seconds> host_per_action;
  Trace trace;                         // measured steps
  std::optional<KernelTrace> kernels;  // of the trace's actions, where they were asked for
};

// Bytes in use on a device that no rank's memory pool holds: the context, the libraries'
// workspaces, and whatever other processes have there. By device number; 0 for a number without
// ranks.
[[nodiscard]] std::vector<Bytes> outside_the_pools(const std::vector<DeviceUse>& ranks);

}  // namespace weir
