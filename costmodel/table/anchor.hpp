// What a few measured steps of the user's own cluster say of the built-in costs: factors on top of
// them, and the runs they were taken from. Fitted by costmodel/fit/anchor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/job/layout_words.hpp"
#include "plan/words/units.hpp"

namespace weir {

// Over what is built in; 1 where nothing was learnt. All four times alike scale a forecast exactly.
struct AnchorFactors {
  double compute = 1;   // layers, and what the host adds before an action
  double messages = 1;  // between stages, and within a stage's devices
  double step = 1;      // once a step: reduction of gradients, update, what follows the last action
  double memory = 1;    // of a device's peak
};

struct AnchorRun {
  std::string plan;             // its file, or the plan in short
  std::string figure;           // as it was given, "22.3s,61GiB"
  Seconds step_time{0};         // that the figure means
  std::optional<Bytes> memory;  // of the fullest device
  double residual = 0;          // log(measured / forecast) of the step time, by the factors
  std::optional<double> memory_residual;
  LayoutWords words = {};  // of the plan; none of files that do not say them
};

// How far a plan is from the nearest of the runs.
[[nodiscard]] PlanDistance nearest(const std::vector<AnchorRun>& runs, const LayoutWords& plan);

struct CostAnchor {
  AnchorFactors factors;
  std::string cluster, device, stack;  // by name; the costs hold for this device alone
  bool stack_named = true;             // false: the stack was a call's default
  std::vector<AnchorRun> runs;
};

}  // namespace weir
