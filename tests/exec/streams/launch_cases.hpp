// Plans that say whether launched steps keep their order: K 1 to 4, split backwards, chunks,
// re-materialisation, 1, 2 and unlimited slots (those with which the plan cannot deadlock), a tied
// table whose ends sit on two ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/words/error.hpp"
#include "tests/exec/tiny.hpp"

namespace weir {

struct LaunchCase {
  std::string name;
  ResolvedPlan loaded;
  RunResult expected;  // of ranks that wait, on the CPU
};

inline RunResult train_waiting(const ResolvedPlan& loaded, int steps) {
  RunOptions options;
  options.steps = steps;
  options.warmup_steps = 0;
  return run(loaded, options, cpu_only());
}

inline std::vector<double> losses(const RunResult& result) {
  std::vector<double> all;
  for (const StepResult& step : result.steps) all.push_back(step.loss);
  return all;
}

// Calls `check` with every case, trained for so many steps; returns how many there were.
inline int for_each_launch_case(const TinyModel& model, int steps,
                                const std::function<void(const LaunchCase&)>& check) {
  const struct {
    const char* schedule;
    int vpp;
    std::vector<int> boundaries;
  } shapes[] = {{"gpipe", 1, {}},        {"gpipe", 1, {3}},    {"1f1b", 1, {1, 3}},
                {"1f1b", 1, {1, 2, 4}},  {"zb-h1", 1, {2, 4}}, {"interleaved-1f1b", 2, {1, 3, 4}},
                {"v-half", 2, {1, 3, 4}}};
  int count = 0;
  for (const auto& shape : shapes) {
    Plan plan = model.plan(shape.boundaries, 4, shape.schedule);
    plan.pp = static_cast<int>(shape.boundaries.size() + 1) / shape.vpp;
    plan.vpp = shape.vpp;
    plan.slots = 0;
    const RunResult expected = train_waiting(model.load(plan), steps);
    for (const int slots : {1, 2, 0}) {
      for (const std::string mode : {"none", "stage", "stage except-last", "full"}) {
        plan.slots = slots;
        plan.recompute = parse_recompute_word(mode.substr(0, mode.find(' '))).value();
        plan.recompute.except_last = mode.ends_with("except-last");
        std::optional<ResolvedPlan> loaded;
        try {
          loaded = model.load(plan);
        } catch (const InputError&) {
          continue;  // would deadlock with so few slots
        }
        const std::string slots_and_mode = " slots " + std::to_string(slots) + " " + mode;
        check({std::string(shape.schedule) + " K" + std::to_string(plan.pp) + slots_and_mode,
               *loaded, expected});
        ++count;
      }
    }
  }
  return count;
}

// Two copies of the weights on each pair of ranks.
inline std::vector<ResolvedPlan> bidirectional_plans(const TinyModel& model) {
  std::vector<ResolvedPlan> plans;
  for (const char* schedule : {"dualpipe", "chimera"}) {
    Plan plan = model.plan({3}, 4, schedule);
    plan.slots = 0;
    plans.push_back(model.load(plan));
  }
  return plans;
}

}  // namespace weir
