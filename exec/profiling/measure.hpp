// Measures a machine: each layer's passes over micro-batch sizes, its update, and the hand-over
// between devices, with all devices busy as they are in a pipeline.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "exec/device/backend.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "plan/model/model.hpp"
#include "plan/words/per_kind.hpp"

namespace weir {

struct MeasureOptions {
  BackendKind backend = BackendKind::cpu;
  std::vector<int> layers;  // indices of the layers to measure; of equal layers one will do
  std::vector<int> micro_batch_sizes{1, 2, 4, 8};
  int devices = 1;  // into which the machine is divided
  int working = 0;  // that work at the same time, the others rest; 0: all
  // A measurement stops when its interquartile range falls below `spread` of its median, or after
  // `most` repetitions.
  int least = 5;
  int most = 25;
  double spread = 0.02;
  std::function<void(int done, int of)> progress;
};

// Medians over repetitions, for layer index `layer` of the model.
struct LayerSample {
  int layer = 0;
  int micro_batch_size = 1;
  PerKind<Seconds> time;  // r is f again
  double spread = 0;      // interquartile range of f over its median
  double unrest = 0;      // spread_over_fastest_half of f
  Bytes scratch{0};       // library scratch memory
};

struct Measurements {
  std::vector<LayerSample> samples;
  std::vector<Seconds> optimizer;  // by layer index; AdamW
  Link link;  // one message between two devices; bandwidth 0: hand-over without copying
};

[[nodiscard]] Measurements measure(const Model& model, std::int64_t seq_length, const Plan& plan,
                                   const MeasureOptions& options, const Backends& backends);

}  // namespace weir
