// Forecasts a pipeline of given times by the installed library.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <utility>
#include <variant>

#include "plan/schedule/generators/generators.hpp"
#include "sim/forecast/forecast.hpp"

int main() {
  using namespace weir;
  // Two stages of one layer: 2 ms F, 2 ms I, 2 ms W.
  Model model;
  model.family = "timed";
  for (int layer = 0; layer < 2; ++layer) {
    TimedShape shape;
    shape.forward = shape.backward_input = shape.backward_weight = Seconds(2e-3);
    model.layers.push_back({"layer", shape, "layer"});
  }
  Plan plan;
  plan.pp = 2;
  plan.microbatches = 4;
  plan.schedule = "1f1b";
  plan.boundaries = {1};
  const auto schedule = std::get<Schedule>(make_schedule("1f1b", {2, 1, 4}));
  const ResolvedPlan resolved = derive(std::move(plan), std::move(model), schedule);
  Cluster cluster;
  cluster.devices_per_node = 2;
  std::printf("%.6f\n", forecast(resolved, Costs{}, cluster).forecast.step_time.count());
}
