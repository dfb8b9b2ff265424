// What `run` is asked, and what it answers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exec/run/run.hpp"
#include "tools/app/machine/watch.hpp"
#include "tools/app/run/process_session.hpp"
#include "tools/app/shared/field.hpp"

namespace weir::app {

struct RunRequest {
  PlanSource plan;
  std::string backend = "cpu";
  int steps = 4, warmup = 1;  // in all, and the first of them
  std::vector<std::filesystem::path> data;
  std::optional<std::filesystem::path> init, save;      // weights, before and after
  std::optional<std::filesystem::path> dump, evaluate;  // gradients and logits; data
  int checkpoint_every = 0;                             // steps; 0: never
  std::optional<std::filesystem::path> resume;
  bool restart = false;
  bool fastest = false;
  CostsSource costs;                      // the synthetic backend's durations
  bool graphs = false, launched = false;  // one CUDA graph always, or never
  bool kernels = false;
  std::optional<std::filesystem::path> output;   // folder for run.json and the trace
  std::optional<std::filesystem::path> picture;  // of the losses
  QuietOptions quiet;
  SessionOptions processes;
  double longest_action_s = 600;  // one that takes longer hangs
  // Told of an action that hangs, in one line; ends the process. No field, as the next.
  std::function<void(const std::string& line)> hangs;
  // Asked after each step: the signal that ends the run there, or 0. No field: whoever calls has
  // signals, or none.
  std::function<int()> stopping;
};
struct RunResult {
  std::string backend;
  PlacedPlan plan;
  weir::RunResult run;           // its trace says where it was made
  Disturbance disturbance = {};  // while its steps were run
  bool leads = true;             // false: another process has the result, and this one's is empty
  std::vector<double> losses_before = {};  // of the runs that it goes on from (loss_picture)
};

}  // namespace weir::app
